"""What hostile, broken or careless input may do: end in one sentence, or work. Nothing else."""

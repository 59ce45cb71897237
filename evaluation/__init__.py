"""The published evaluation, run again: its numbers, our runs, and both side by side.

`published` holds the paper's numbers, `runs` does one data set under its published protocol,
`results` is what a run leaves behind, `sweep` tries the settings the paper does not state,
`tables`, `figures` and `page` show all of it, `command` is the command line.
"""

"""The learning algorithm L: its definition (`reference`) and the engines that make it fast."""

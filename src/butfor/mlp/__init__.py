"""Our network: its settings (`recipe`), its definition (`reference`), engines that train it fast, its derivatives."""

"""What the hardware promises. `load("gb300")`, `for_vm_size("Standard_ND128isr_GB300_v6")`, `names()`."""

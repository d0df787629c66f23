"""ndctl: deploy and validate racks of Azure ND GB300 v6."""

__version__ = "0.1.0"

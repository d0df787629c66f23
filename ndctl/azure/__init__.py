"""Azure Resource Manager through the official SDKs: sign-in, what-if, deployments, scale sets, host keys, errors.

Slow to import (the SDKs): import it inside functions of `cli`.
"""

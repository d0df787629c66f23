"""The region's control plane: Azure Resource Manager over HTTPS, as the official SDKs expect it.

Shapes, status codes and headers follow the public Azure/azure-rest-api-specs examples and learn.microsoft.com; what
an instance is made of comes from `ndctl.sim.world`, so that control plane and nodes tell one story.
"""

"""Images of one's own: galleries, their image definitions and versions, and managed images. Nothing is built here."""

from __future__ import annotations

from ndctl.sim.arm.errors import invalid_parameter
from ndctl.sim.arm.ids import ResourceId
from ndctl.sim.arm.region import Body, Kind, Region
from ndctl.sim.arm.store import Record


class Gallery(Kind):
    type = "Microsoft.Compute/galleries"
    immediate = True


class GalleryImage(Kind):
    """A definition: what the versions below it have in common, the processor among it."""

    type = "Microsoft.Compute/galleries/images"
    immediate = True

    def check(self, region: Region, rid: ResourceId, body: Body) -> None:
        told = body.get("properties") or {}
        for key in ("osType", "osState", "identifier"):
            if not told.get(key):
                raise invalid_parameter(f"galleryImage.properties.{key}", f"Required parameter '{key}' is missing.")

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        body["properties"].setdefault("architecture", "x64")
        body["properties"].setdefault("hyperVGeneration", "V1")
        return body


class GalleryImageVersion(Kind):
    type = "Microsoft.Compute/galleries/images/versions"
    immediate = True

    def begin(self, region: Region, rid: ResourceId, body: Body, before: Record | None) -> Body:
        profile = body.setdefault("properties", {}).setdefault("publishingProfile", {})
        profile.setdefault("targetRegions", [{"name": body.get("location", ""), "regionalReplicaCount": 1}])
        return body


class ManagedImage(Kind):
    type = "Microsoft.Compute/images"
    immediate = True


KINDS: tuple[type[Kind], ...] = (Gallery, GalleryImage, GalleryImageVersion, ManagedImage)

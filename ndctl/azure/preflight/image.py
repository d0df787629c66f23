"""The image: whether it exists in the region in that version, and for the size's processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from ndctl.azure.clients import COMPUTE_API
from ndctl.azure.preflight.base import Ask, Probe
from ndctl.model.preflight import PreflightLine
from ndctl.render.jump import JUMP_MACHINE

GALLERY_API = "2024-03-03"
_SHOWN_VERSIONS = 3
# How Azure spells processors in images and in resource SKUs -> how profiles do.
_ARCHITECTURES = {"arm64": "arm64", "x64": "x86_64", "x86_64": "x86_64"}


def _ask(ask: Ask, probe: Probe) -> Iterator[PreflightLine]:
    image = ask.loaded.image
    architecture = ask.loaded.profile.azure.architecture
    if image.startswith("/"):
        yield _own(ask, probe, image)
    else:
        yield _marketplace(ask, probe, _Wanted(image, ask.vm_size, architecture, probe.id, probe.title))
    if ask.creates_jump and not ask.jump_stands():
        jump = _Wanted(
            JUMP_MACHINE.image, JUMP_MACHINE.vm_size, "x86_64", "image.jump", "image of the jump VM", pinned=False
        )
        yield _marketplace(ask, probe, jump)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """pinned: a version that moves is worth a word."""

    urn: str
    vm_size: str
    architecture: str
    id: str
    title: str
    pinned: bool = True


def _marketplace(ask: Ask, probe: Probe, wanted: _Wanted) -> PreflightLine:
    urn = wanted.urn
    publisher, offer, sku, version = urn.split(":")
    images = ask.clients.compute.virtual_machine_images
    where = (ask.region, publisher, offer, sku)
    latest = version.casefold() == "latest"
    told: dict[str, Any] = {"id": wanted.id, "title": wanted.title}
    try:
        if latest:
            newest = images.list(*where, orderby="name desc", top=1, api_version=COMPUTE_API)
            if not newest:
                return probe.refused(f"{urn} has no version in {ask.region}", _list_step(ask, where), **told)
            version = newest[0].name or ""
        found = images.get(*where, version, api_version=COMPUTE_API)
    except ResourceNotFoundError:
        return _missing(ask, probe, urn, where, told)
    inner = found.properties
    architecture = _word(inner.architecture) if inner else ""
    told["facts"] = {"version": version, "architecture": architecture}
    if wrong := _wrong_processor(architecture, wanted.vm_size, wanted.architecture):
        return probe.refused(f"{urn} {wrong}", "choose an image for that processor in the inventory", **told)
    state = inner.image_deprecation_status if inner else None
    fate = _word(state.image_state).casefold() if state else ""
    if fate == "deprecated":
        return probe.refused(f"{urn} is deprecated: no new VM can be made of it", _list_step(ask, where), **told)
    if not architecture:
        message = f"version {version} exists; Azure does not say for which processor"
        return probe.unproved(message, "try it on one rack first", **told)
    notes = f", for {architecture}"
    if state and fate == "scheduledfordeprecation":
        notes += f"; it will be deprecated on {state.scheduled_deprecation_time or 'a day that is not told'}"
    if inner and inner.plan is not None:
        notes += "; its publisher's terms must be accepted once: az vm image terms accept"
    if latest and wanted.pinned:
        return probe.unproved(
            f"'latest' is {version} today{notes}; what it is when a rack is deployed cannot be known",
            f"pin it: image: {publisher}:{offer}:{sku}:{version}",
            **told,
        )
    return probe.proved(f"version {version} exists in {ask.region}{notes}", **told)


def _missing(ask: Ask, probe: Probe, urn: str, where: tuple[str, str, str, str], told: dict[str, Any]) -> PreflightLine:
    """Whether the version is wrong, or what stands before it."""
    try:
        listed = ask.clients.compute.virtual_machine_images.list(*where, orderby="name desc", api_version=COMPUTE_API)
    except ResourceNotFoundError:
        listed = []
    versions = sorted((one.name or "" for one in listed), reverse=True)[:_SHOWN_VERSIONS]
    there = f"newest there: {', '.join(versions)}" if versions else "publisher, offer or sku is not there either"
    return probe.refused(
        f"{urn} does not exist in {ask.region}; {there}", _list_step(ask, where), **told, facts={"versions": versions}
    )


def _list_step(ask: Ask, where: tuple[str, str, str, str]) -> str:
    _, publisher, offer, sku = where
    return f"az vm image list --location {ask.region} --publisher {publisher} --offer {offer} --sku {sku} --all"


def _own(ask: Ask, probe: Probe, image: str) -> PreflightLine:
    """An image of one's own: a gallery's definition or version, or a managed image."""
    parts = image.strip("/").split("/")
    gallery = "galleries" in (part.casefold() for part in parts)
    at = next((i for i, part in enumerate(parts) if part.casefold() == "versions"), None)
    version = parts[at + 1] if at is not None and len(parts) > at + 1 else ""
    definition = "/" + "/".join(parts[:at] if at is not None else parts)
    get = ask.clients.resources.resources.get_by_id
    api = GALLERY_API if gallery else COMPUTE_API
    try:
        told = get(definition.lstrip("/"), api_version=api)
        exact = get(image.lstrip("/"), api_version=api) if version else told
    except ResourceNotFoundError:
        step = "az sig image-version list" if gallery else "az image list"
        return probe.refused(f"{image} does not exist, or this identity cannot see it", f"{step}   shows what is there")
    properties: Any = told.properties or {}
    architecture = str(properties.get("architecture") or "")
    facts = {"version": version, "architecture": architecture}
    if wrong := _wrong_processor(architecture, ask.vm_size, ask.loaded.profile.azure.architecture):
        return probe.refused(f"{image} {wrong}", "choose an image for that processor in the inventory", facts=facts)
    if gallery and version:
        regions = _regions(exact.properties or {})
        if regions and ask.region not in regions:
            return probe.refused(
                f"version {version} is not replicated to {ask.region}, only to {', '.join(regions)}",
                f"az sig image-version update --add publishingProfile.targetRegions name={ask.region}",
                facts=facts,
            )
    if not architecture:
        message = f"{image} exists; Azure does not say for which processor"
        return probe.unproved(message, "try it on one rack first", facts=facts)
    if gallery and not version:
        return probe.unproved(
            f"{image} exists, for {architecture}; it names no version, so the newest of that day is taken",
            "pin it: end the image's id in /versions/…",
            facts=facts,
        )
    return probe.proved(f"{parts[-1]} exists, for {architecture}", facts=facts)


def _regions(properties: Any) -> list[str]:
    targets = (properties.get("publishingProfile") or {}).get("targetRegions") or []
    return [str(one.get("name", "")).replace(" ", "").casefold() for one in targets]


def _wrong_processor(architecture: str, vm_size: str, wanted: str) -> str:
    """Spelled differently by images and sizes; "" when they fit or nothing is told."""
    is_for = _ARCHITECTURES.get(architecture.casefold(), architecture)
    return f"is for {architecture}, and {vm_size} is {wanted}" if architecture and is_for != wanted else ""


def _word(told: Any) -> str:
    """An enum of the SDK, or the plain text of a value that it does not know yet."""
    return str(getattr(told, "value", told) or "")


PROBE = Probe("image", "image", "Microsoft.Compute images of the region", _ask)

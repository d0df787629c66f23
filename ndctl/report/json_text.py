"""A Run or a Judgement as versioned JSON text."""

from __future__ import annotations

from ndctl.model.codec import run_to_json
from ndctl.model.findings import JUDGE_SCHEMA, Judgement, Run
from ndctl.model.jsonable import dumps, jsonable


def run_json(run: Run) -> str:
    return dumps(run_to_json(run))


def judgement_json(judgement: Judgement) -> str:
    return dumps({"schema": JUDGE_SCHEMA, **jsonable(judgement)})

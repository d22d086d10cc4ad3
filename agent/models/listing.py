"""Ask an endpoint which models it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from agent.config import Settings
from agent.errors import ModelEndpointError
from agent.models.faults import expected, fault_of, shown_url

LIST_S = 10.0


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold the names of the models of an endpoint, and the head of the answer that told them."""

    names: list[str]
    headers: Mapping[str, str]


async def served(settings: Settings) -> list[str]:
    """Return the names of the models of an endpoint; raise `ModelEndpointError` with what is wrong."""
    return (await listed(settings)).names


async def listed(settings: Settings) -> Listing:
    """Return the whole answer of an endpoint; raise `ModelEndpointError` with what is wrong."""
    from agent.models.openai import OpenAIModel

    async with OpenAIModel(settings).client() as client:
        try:
            async with asyncio.timeout(LIST_S):
                answer = await client.models.with_raw_response.list()
                page = answer.parse()
        except TimeoutError as error:
            where = shown_url(str(client.base_url))
            raise ModelEndpointError(
                f"{where} gave no list of models within {LIST_S:g} s", do="check it"
            ) from error
        except expected() as error:
            fault = fault_of(error)
            raise ModelEndpointError(
                f"{shown_url(str(client.base_url))}: {fault.what}", do=fault.do
            ) from error
    return Listing([str(model.id) for model in page.data or ()], dict(answer.headers))

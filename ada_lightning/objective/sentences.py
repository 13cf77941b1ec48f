"""What a card says in words: short sections that belong to no trainer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ada_lightning.audit.untrusted import printable, shown
from ada_lightning.objective.card import Card, counts_tokens_alike
from ada_lightning.objective.update import Baseline, Filter, Keep, Reduction, Single, Spread, Truncated, Update
from ada_lightning.objective.weights import FINE, PASS_RATES, is_mean, responses

SCOPE = (
    "Weights are exact sums over all outcomes of a group: rewards 0 or 1, responses equally long, the first update "
    "of a rollout."
)
_LENGTH = {
    Reduction.RESPONSE_MEAN: "A response of twice the length has the same weight in total, and each of its tokens "
    "half. So a long wrong response is pushed down less per token than a short one.",
    Reduction.TOKEN_MEAN: "Every token counts alike, so a response of twice the length has twice the weight. "
    "The sum is divided by the number of tokens, so longer batches take no larger steps.",
    Reduction.CONSTANT: "Every token counts alike, and the divisor is a constant. Length changes nothing else.",
    Reduction.RESPONSE_SUM: "Every token counts alike, and the divisor is the number of responses. Length changes "
    "nothing else.",
    Reduction.TOKEN_SUM: "Every token counts alike, and nothing is divided. More or longer responses make a larger "
    "step.",
    Reduction.PROMPT_MEAN: "Within a prompt every token counts alike. Prompts with longer responses have a smaller "
    "weight per token.",
}
_SINGLE_WHY = {
    Single.RAW: "That rewards whatever was sampled, and has no baseline.",
    Single.ZERO: "So it trains nothing.",
}


@dataclass(frozen=True)
class Section:
    """A heading, and sentences below it."""

    title: str
    sentences: tuple[str, ...]


def sections(card: Card) -> list[Section]:
    """Return everything that is said of a configuration, what matters most first; no section is empty."""
    update = card.update
    found = [
        Section("What it optimises", (headline(card), *filter(None, [update.preference]), *_objective(card))),
        Section("To make it the mean pass rate", tuple(_remedy(card))),
        Section("What a response's length does", tuple(_length(update))),
        Section("Groups without a signal, and other special cases", tuple(_special(update))),
        Section("What a prompt costs", tuple(_cost(update))),
        Section("Later updates, and what else multiplies a response", tuple(_later(update))),
        Section("What surprises", update.notes),
        Section("What the file does not tell", tuple(_unknown(card))),
    ]
    return [section for section in found if section.sentences]


def version_line(card: Card) -> str:
    """Say what the card was held against."""
    trainer = card.trainer
    held = f"Held against {trainer.title} {trainer.version}: {trainer.evidence.value}."
    if not card.is_checked:
        version = printable(card.version)
        return (
            f"{held} You run {version}: that is unchecked, and silent settings have the defaults of {trainer.version}."
        )
    return held if card.version else f"{held} Another version is unchecked."


def headline(card: Card) -> str:
    """Name the objective."""
    if card.update.undetermined:
        return f"What it optimises is not determined. {card.update.undetermined}"
    if card.update.statement:
        return card.update.statement
    best = card.nearest[0]
    if best.off < 1.0005:
        where = " in a large batch" if card.update.couples_prompts else ""
        return f"It follows {best.name}{where}: {best.formula}."
    return (
        f"It follows no objective that has a name. The nearest is {best.name}, {best.formula}: the weights of two "
        f"prompts differ from it by a factor of up to {digits(best.off)}."
    )


def digits(value: float) -> str:
    """Spell a positive number with three digits that count.

    Example:
        >>> [digits(value) for value in (0.3471, 1.3326, 26.84, 1234.0)]
        ['0.35', '1.33', '26.8', '1,234']
    """
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _objective(card: Card) -> Iterator[str]:
    update = card.update
    divisor = update.divisor
    if update.undetermined:
        return
    if update.sums:
        yield f"Of objectives with a name the nearest is: {_nearest(card)}."
        yield f"At p = 1/2 a drawn response weighs {card.weight_at_half:.3g}; the plain policy gradient has 1."
        yield SCOPE
        return
    text = f"Advantage of a response: its reward minus {update.baseline.value}"
    if divisor.spread is not Spread.NONE:
        below = (
            f" (n{' - 1' if divisor.ddof else ''} below the sum of squares)"
            if "deviation" in divisor.spread.value
            else ""
        )
        plus = f", plus {divisor.epsilon:g}" if divisor.epsilon else ""
        text += f", divided by {divisor.spread.value}{below}{plus}"
    if update.cut:
        text += f", cut to {update.cut[0]:g} .. {update.cut[1]:g}"
    if update.whitening:
        text += ", then whitened over the batch" if update.whitening.divides else ", then minus the mean of the batch"
    if update.bounds:
        text += f", then cut to {_span(*update.bounds)}"
    yield f"{text}." + (f" All of it is multiplied by {update.gain:g}." if update.gain != 1 else "")
    yield f"At a pass rate of 1/2 the weight is {card.weight_at_half:.3g}; the plain policy gradient has 1."
    if update.visits:
        yield "Weights hold for the long run: those of one visit, times how often a prompt of that pass rate is asked."
    if card.weights_beside:
        shared = f" Here {update.batch_prompts} prompts share it." if update.batch_prompts else ""
        yield f"The batch's own statistics tie prompts together. They matter most in small batches.{shared}"
    yield SCOPE


def _span(low: float, high: float) -> str:
    if low == -math.inf:
        return f"at most {high:g}"
    return f"at least {low:g}" if high == math.inf else f"{low:g} .. {high:g}"


def _remedy(card: Card) -> Iterator[str]:
    update = card.update
    is_exact = card.is_mean
    if is_exact and counts_tokens_alike(update):
        yield "Nothing is to be changed: every prompt weighs the same, and every token counts alike."
        return
    if is_exact:
        yield "Every prompt weighs the same already. What is left is the length of responses."
    elif not update.undetermined and update.preference and is_mean(update):
        yield "The prompts of a step weigh the same already. What is left is how often each comes."
    elif not update.undetermined and is_mean(update):
        yield "In a large batch every prompt weighs the same already. In a small one the batch's statistics do harm."
    if not card.remedies:
        wanted = "makes tokens count alike" if is_exact else "makes it the mean pass rate"
        yield f"No setting of {card.trainer.title} that this reader knows {wanted}."
    for remedy in card.remedies:
        named = ", ".join(f"{key}={value}" for key, value in remedy.changes.items())
        also = " Then every token counts alike, too." if remedy.counts_tokens_alike else ""
        what = "Every token counts alike" if is_exact else "It becomes the mean pass rate"
        yield f"{what} with {named}: {shown(Path(remedy.command))}.{'' if is_exact else also}"
    if card.remedies and any(term.moves_equal for term in update.terms):
        yield "The other terms below still move the policy."


def _length(update: Update) -> Iterator[str]:
    yield f"A token's factor is {update.reduction.value}, counted over {update.scope}."
    yield _LENGTH[update.reduction]
    if update.baseline is Baseline.LENGTH_MEAN:
        yield "The baseline counts long responses more."


def _special(update: Update) -> Iterator[str]:
    yield f"All rewards equal: {_equal(update)}"
    if update.terms:
        for term in update.terms:
            moves = "moves groups without a signal, too" if term.moves_equal else "moves only groups with a signal"
            yield f"{term.name}, coefficient {term.coefficient:g}: {moves}" + (f" ({term.note})." if term.note else ".")
    else:
        yield "No further term of the loss moves groups without a signal."
    yield f"A group of one response {update.single.value}. {_SINGLE_WHY.get(update.single, '')}".strip()
    yield f"A response without a reward {update.missing.value}."
    yield f"A truncated response {update.truncated.value}." + (
        f" {update.truncated_note}" if update.truncated_note else ""
    )
    if update.truncated is Truncated.MASKED:
        stays = "stay in" if update.counts_masked else "leave"
        yield f"Masked responses {stays} the divisor."


def _equal(update: Update) -> str:
    if update.filter and update.filter.keep is not Keep.ROW_SPREAD:
        return "a filter takes the group out."
    if update.group_size == 1 and update.single is Single.RAW:
        return "a group is one response, and trains on its raw reward."
    if not update.is_centred:
        return "the group trains, since its baseline is not its own mean."
    if update.whitening:
        return "advantages are 0 before whitening. The whitening's mean moves them where lengths differ."
    if update.max_rounding:
        return (
            "advantages are 0. Of equal fractional rewards, such as 0.1, rounding can leave up to "
            f"{update.max_rounding:g}, all of one sign."
        )
    return "advantages are 0."


def _cost(update: Update) -> Iterator[str]:
    n = update.group_size
    limit = update.max_response_tokens
    tokens = f", so at most {n * limit:,} tokens" if limit else ""
    if update.sums or update.ends:
        drawn = update.sums.responses if update.sums else [responses(update, rate) for rate in FINE]
        low, high = min(drawn), max(drawn)
        yield f"A prompt draws {low:.1f} to {high:.1f} responses on average, by its pass rate, and {n} at most."
    else:
        yield f"{n} responses a group{tokens}. How long responses are stands in no configuration."
    if update.filter:
        yield from _filter(update, update.filter)
    else:
        yield "No filter: groups without a signal cost as much, and stay in the batch."


def _filter(update: Update, chosen: Filter) -> Iterator[str]:
    span = f" ({chosen.low:g} to {chosen.high:g})" if chosen.keep is Keep.MEAN_INSIDE else ""
    then = "others are drawn in place of the rest" if chosen.refills else "the rest is dropped, and fewer train"
    yield f"A filter keeps {chosen.keep.value}{span}; {then}."
    if chosen.keep is Keep.SPREAD or (chosen.keep is Keep.MEAN_INSIDE and chosen.low <= 0 and chosen.high >= 1):
        yield (
            "It changes no weights, since such groups add nothing. It changes the size of a step and what it costs."
            if update.is_centred
            else "Such groups would train, so it changes weights."
        )
    elif chosen.keep is Keep.MEAN_INSIDE:
        yield "Groups with a signal are left out, too. That changes weights, and they are summed with it."
    if chosen.prefers_fast:
        yield "Groups that are done first are taken. That prefers prompts with short responses."
    if chosen.note:
        yield chosen.note


def _later(update: Update) -> Iterator[str]:
    if update.updates_per_rollout is None:
        yield "The file does not say how many updates a rollout has."
    elif update.updates_per_rollout > 1:
        yield f"A rollout has {update.updates_per_rollout} updates. Only the first is on policy."
    if update.clip:
        level = "of a whole response" if update.clip.level == "sequence" else "of a token"
        yield f"Ratio {level}: {update.clip.text}. On policy it is 1."
    yield from update.corrections


def _unknown(card: Card) -> Iterator[str]:
    yield from card.update.unknown
    if card.unknown_keys:
        shown = [printable(key) for key in card.unknown_keys]
        more = f", and {len(shown) - 20} more" if len(shown) > 20 else ""
        yield f"Keys that this reader does not know, and does not guess: {', '.join(shown[:20])}{more}."


def table(card: Card) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rows of figures by pass rate, a name and a cell for each rate; the first is the heading."""
    rows = [("pass rate", tuple(f"{rate:g}" for rate in PASS_RATES))]
    if card.weights:
        rows.append(("weight of a prompt", tuple(map(digits, card.weights))))
    if card.weights_beside:
        rows.append(("same, with one other prompt of 0.5", tuple(map(digits, card.weights_beside))))
    rows.append(("groups with a signal", tuple(f"{100 * share:.0f} %" for share in card.signal)))
    if card.update.filter:
        rows.append(("responses kept by the filter", tuple(f"{100 * share:.0f} %" for share in card.kept)))
    rows.append(("responses drawn for a group that trains", tuple(f"{count:.1f}" for count in card.responses)))
    return rows


def facts(card: Card) -> dict[str, str]:
    """Return what an update does in short cells, by what each is about; all cards have the same ones."""
    update = card.update
    plus = f" + {update.divisor.epsilon:g}" if update.divisor.epsilon else ""
    clip = f"{update.clip.text} ({update.clip.level})" if update.clip else "none"
    return {
        "trainer": f"{card.trainer.title} {card.trainer.version}",
        "nearest objective": _nearest(card),
        "responses of a prompt": f"up to {update.group_size}" if update.sums or update.ends else str(update.group_size),
        "minus": "what its own advantage says" if update.sums else update.baseline.value,
        "divided by": update.divisor.spread.value + plus,
        "whitened over the batch": "yes" if update.whitening else "no",
        "cut to": "; ".join(_span(*each) for each in (update.cut, update.bounds) if each) or "nothing",
        "filter": _cell_of_filter(update.filter),
        "a token's factor": update.reduction.value,
        "counted over": update.scope,
        "further terms": ", ".join(f"{term.name} {term.coefficient:g}" for term in update.terms) or "none",
        "a group of one": update.single.value,
        "no reward": update.missing.value,
        "truncated": update.truncated.value,
        "updates of a rollout": str(update.updates_per_rollout or "not known"),
        "ratio": clip,
    }


def _nearest(card: Card) -> str:
    if not card.nearest:
        return "not determined"
    best = card.nearest[0]
    return best.name if best.off < 1.0005 else f"{best.name}, off by up to {digits(best.off)}"


def _cell_of_filter(chosen: Filter | None) -> str:
    if chosen is None:
        return "none"
    return f"keeps {chosen.keep.value}; " + ("others are drawn" if chosen.refills else "fewer train")

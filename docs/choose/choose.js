// Looks up docs/choose/mixes.json (python -m research.studies.choose): the distribution of pass rates under which what was
// entered is likeliest, and what each rule costs there at a cost ratio. Nothing is decided here except by the answers.
(function () {
  "use strict";

  const SITUATIONS = {
    few: {
      take: "grpo",
      because:
        "On a real model of 135M parameters three seeds could tell no method from GRPO, and GRPO trains on the fewest tokens. If the text " +
        "tells and generated tokens are what costs you, try grpo_chosen estimator.spread_scale=0.1 next to it.",
      known: "runs of SmolLM2",
    },
    "many-words": {
      take: "grpo_chosen data.num_minibatches=4 data.prompts_per_step=128 optimizer/schedule=linear",
      because: "Similar words and earlier visits say which prompts will differ, and nothing is drawn to find out.",
      known: "runs of a tiny model at a cost ratio of about 1",
    },
    "once-words": {
      take: "grpo_chosen data.num_minibatches=4 data.prompts_per_step=128",
      because:
        "GRPO except for its prompts: it looks at four for each that it samples, so you need four times as many. ada_similar data.num_minibatches=4 " +
        "data.prompts_per_step=128 selection=thinned went further in a tiny model, and trains on more of what it draws.",
      known: "runs of a tiny model at a cost ratio of about 1; of SmolLM2, not decided",
    },
    dear: {
      take: "rarer_class data.num_minibatches=4 data.prompts_per_step=128 optimizer/schedule=linear",
      because:
        "It draws one response of each chosen prompt and trains on the surprising ones: a third of the tokens in a tiny model. It is " +
        "less certain than grpo_chosen.",
      known: "runs of a tiny model; of SmolLM2, not decided",
    },
    "once-alike": {
      take: "grpo",
      because:
        "Nothing says which of the prompts will differ. By exact calculations speed_rl may be cheaper; in runs on other prompts it ended " +
        "lower.",
      known: "exact calculations; runs on other prompts",
    },
    other: {
      take: "ada_seq_balance objective=log",
      because:
        "Exact for the objective under any stopping rule (objective=linear, power, pass_at_k and logit are the others). That costs " +
        "tokens; it saves none.",
      known: "exact calculations",
    },
  };

  const MANY = {
    ada: {
      take: "ada data.num_minibatches=4 data.prompts_per_step=128",
      because:
        "History says which prompts will differ and what to expect of them, and nothing is drawn to find out. Four times the prompts per " +
        "step keep the size of the updates; where seconds do not count, leave the minibatches out.",
      known: "exact calculations; runs of a tiny model at a cost ratio of about 1",
    },
    "ada_seq_balance advantage=official": {
      take: "ada_seq_balance advantage=official",
      because: "It draws many and trains on few, and there is nothing to choose between prompts.",
      known: "exact calculations alone; in runs on other prompts it ended below GRPO",
    },
    grpo: {
      take: "grpo",
      because:
        "At this cost ratio nothing that runs agree with is cheaper: what choosing prompts saves in rollouts it spends on training " +
        "all of them.",
      known: "exact calculations",
    },
  };

  /** Prompts by number of right responses, of `drawn`. Throws with what is wrong and the way out. */
  function parse(text, drawn) {
    const counts = new Array(drawn + 1).fill(0);
    const rows = text
      .split("\n")
      .map((line) => line.match(/^\s*(\d+)\s+(\d+)\b/))
      .filter((found) => found);
    if (rows.length > 1) {
      for (const [, right, prompts] of rows) {
        if (Number(right) > drawn) {
          throw new Error(`${right} right responses of ${drawn}: prepare.py draws ${drawn} here (num_samples=${drawn}).`);
        }
        counts[Number(right)] += Number(prompts);
      }
    } else {
      const words = text.split(/[\s,;]+/).filter((word) => word);
      for (const word of words) {
        const rate = Number(word);
        if (!(rate >= 0 && rate <= 1)) {
          throw new Error(`${word} is not a pass rate: give numbers from 0 to 1, or lines of right responses and prompts.`);
        }
        counts[Math.round(rate * drawn)] += 1;
      }
    }
    if (counts.every((count) => count === 0)) {
      throw new Error("No pass rates: paste the table of prepare.py, or take one of the examples.");
    }
    return counts;
  }

  /** The distribution under which these counts are likeliest. */
  function likeliest(mixes, counts) {
    let best = null;
    let most = -Infinity;
    for (const mix of mixes) {
      const value = counts.reduce((sum, count, right) => sum + count * Math.log(Math.max(mix.seen[right], 1e-12)), 0);
      if (value > most) [best, most] = [mix, value];
    }
    return best;
  }

  /** What each experiment costs over the cheapest GRPO. */
  function costs(figures, mix, ratio) {
    const totals = mix.spent.map(([generated, trained]) => generated + ratio * trained);
    const least = Math.min(...totals.slice(0, figures.num_grpo));
    return figures.experiments.map((name, index) => ({ name, cost: totals[index] / least }));
  }

  /** Whether pass rates decide: elsewhere runs do, and only the answers count. */
  const byCalculation = (visits, words, aim) => visits === "many" && words === "no" && aim === "mean";

  /** What to take: a command's settings, why, and from what that is known. */
  function advice(visits, words, aim, mix, ratio) {
    if (aim !== "mean") return SITUATIONS.other;
    if (byCalculation(visits, words, aim)) return MANY[mix.take.filter(([from]) => from <= ratio).pop()[1]];
    if (words === "no") return visits === "once" ? SITUATIONS["once-alike"] : SITUATIONS.few;
    if (visits === "few") return SITUATIONS.few;
    return visits === "many" && ratio > 1 ? SITUATIONS.dear : SITUATIONS[`${visits}-words`];
  }

  const percent = (share) => `${Math.round(100 * share)} %`;
  const rate = (value) => (value < 0.005 ? "below 0.01" : value.toFixed(2));

  function describe(mix) {
    const parts = [];
    if (mix.never > 0) parts.push(`${percent(mix.never)} never solved`);
    if (mix.always > 0) parts.push(`${percent(mix.always)} always solved`);
    const [low, high] = mix.middle;
    parts.push(`${parts.length ? "the rest" : "pass rates"} ${rate(mix.mean)} on average, eight in ten of them from ${rate(low)} to ${rate(high)}`);
    return (mix.name ? `“${mix.name}”: ` : "") + parts.join(", ");
  }

  const api = { SITUATIONS, MANY, parse, likeliest, costs, advice, describe };
  if (typeof module !== "undefined") {
    module.exports = api;
    return;
  }

  const root = document.getElementById("choose");
  const find = (selector) => root.querySelector(selector);

  function bar(name, cost, widest) {
    const row = document.createElement("div");
    row.className = `choose-bar${cost < 0.995 ? " choose-pays" : ""}`;
    const label = document.createElement("code");
    label.textContent = name;
    const track = document.createElement("span");
    track.className = "choose-track";
    track.style.setProperty("--one", `${100 / widest}%`);
    const fill = document.createElement("span");
    fill.className = "choose-fill";
    fill.style.width = `${(100 * Math.min(cost, widest)) / widest}%`;
    track.append(fill);
    const value = document.createElement("b");
    value.textContent = cost.toFixed(2);
    row.append(label, track, value);
    return row;
  }

  function histogram(counts, seen) {
    const total = counts.reduce((sum, count) => sum + count, 0);
    const highest = Math.max(...seen, ...counts.map((count) => count / total));
    const place = find(".choose-histogram");
    place.replaceChildren();
    seen.forEach((share, right) => {
      const column = document.createElement("span");
      column.title = `${right} of ${seen.length - 1} right: yours ${percent(counts[right] / total)}, the distribution ${percent(share)}`;
      for (const [kind, height] of [["yours", counts[right] / total], ["mix", share]]) {
        const part = document.createElement("i");
        part.className = `choose-${kind}`;
        part.style.height = `${(100 * height) / highest}%`;
        column.append(part);
      }
      const label = document.createElement("small");
      label.textContent = right % 4 === 0 ? String(right) : "";
      column.append(label);
      place.append(column);
    });
    place.setAttribute("aria-label", "Share of prompts by right responses of 16: yours and the distribution");
  }

  function showCosts(figures, mix, counts, ratio) {
    const rows = costs(figures, mix, ratio).sort((one, other) => one.cost - other.cost);
    const widest = Math.min(Math.max(...rows.map((row) => row.cost)), 3);
    find(".choose-bars").replaceChildren(...rows.map((row) => bar(row.name, row.cost, widest)));
    find(".choose-caption").textContent =
      `At a cost ratio of ${ratio}, over the cheapest GRPO (the line); below 1 it pays. For the mean pass rate, prompts that come back, ` +
      "scores of unit norm.";
    find(".choose-fit").textContent = `Computed for ${describe(mix)}.`;
    histogram(counts, mix.seen);
  }

  function show(figures) {
    const error = find(".choose-error");
    const [visits, words, aim] = ["visits", "words", "aim"].map((key) => find(`#choose-${key}`).value);
    const isComputed = byCalculation(visits, words, aim);
    for (const field of root.querySelectorAll("#choose-visits, #choose-words")) field.disabled = aim !== "mean";
    find("#choose-ratio").disabled = aim !== "mean" || (words === "no" && !isComputed);
    for (const field of root.querySelectorAll("#choose-rates, [data-mix]")) field.disabled = !isComputed;
    try {
      const ratio = Number(find("#choose-ratio").value);
      const [lowest, highest] = figures.prices;
      if (!find("#choose-ratio").disabled && !(ratio >= lowest && ratio <= highest)) {
        throw new Error(`A cost ratio from ${lowest} to ${highest}: what training a token costs in generated ones.`);
      }
      let mix = null;
      if (isComputed) {
        const counts = parse(find("#choose-rates").value, figures.drawn);
        mix = likeliest(figures.mixes, counts);
        showCosts(figures, mix, counts, ratio);
      }
      const taken = advice(visits, words, aim, mix, ratio);
      find(".choose-command").textContent = `python train.py +experiment=${taken.take}`;
      find(".choose-because").textContent = taken.because;
      find(".choose-known").textContent = `Known from: ${taken.known}.`;
      error.hidden = true;
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
    find(".choose-result").hidden = !error.hidden;
    find(".choose-sums").hidden = !error.hidden || !isComputed;
  }

  /** The table that prepare.py would print for a distribution, of 1,000 prompts. */
  const example = (mix) => mix.seen.map((share, right) => `${right} ${Math.round(1000 * share)}`).join("\n");

  fetch("mixes.json")
    .then((answer) => answer.json())
    .then((figures) => {
      const asked = new URLSearchParams(location.search);
      for (const key of ["visits", "words", "aim", "ratio", "rates"]) {
        if (asked.has(key)) find(`#choose-${key}`).value = asked.get(key);
      }
      const preset = (name) => example(figures.mixes.find((mix) => mix.name === name));
      if (!asked.has("rates")) find("#choose-rates").value = preset(asked.get("mix") || "wide");
      for (const button of root.querySelectorAll("[data-mix]")) {
        button.addEventListener("click", () => {
          find("#choose-rates").value = preset(button.dataset.mix);
          show(figures);
        });
      }
      find("form").addEventListener("input", () => show(figures));
      find("form").addEventListener("submit", (event) => event.preventDefault());
      root.hidden = false;
      show(figures);
    });
})();

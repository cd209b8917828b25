"""One-layer models of the families, as transformers computes them, for `compare_torch.py`."""
import json
import pathlib

from torch import nn

DESCRIPTION = json.loads(pathlib.Path(__file__).with_name("families.json").read_text())
FAMILIES = tuple(DESCRIPTION["families"])
# The families whose attention torch's own kernel can't compute: it has neither caps of scores nor sinks.
OWN_ATTENTION = ("gemma2", "gpt_oss")
# The family whose experts transformers computes in one way only: all experts for all tokens.
ONE_WAY = ("llama4",)


class Logits(nn.Module):
    """A model that returns its logits and keeps no cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def models(family, dtype):
    """The model in each way that transformers has for its experts."""
    import transformers

    fields = {**DESCRIPTION["common"], **DESCRIPTION["families"][family]}
    config = transformers.CONFIG_MAPPING[fields.pop("model_type")](**fields)
    attention = "eager" if family in OWN_ATTENTION else "sdpa"
    sparse = family not in ONE_WAY and any("expert" in field for field in fields)
    for experts in ("eager", "grouped_mm") if sparse else ("eager",):
        chosen = {"experts_implementation": experts} if sparse else {}
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention, **chosen)
        yield ("loop" if experts == "eager" else experts) if sparse else "", Logits(model.eval())

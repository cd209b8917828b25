//! Keys from the records of built files.

use super::{CustomKey, SemanticsKey, custom};
use crate::ops::operations;
use serde_json::Value;

macro_rules! readers {
    (
        sites { $(
            #[doc = $doc:literal]
            $Op:ident {
                name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, key: $Key:ident of $op:literal,
            }
        )+ }
        parts { $($parts:tt)+ }
    ) => {
        /// The operations of this release.
        const BUILT_IN: &[&str] = &[$($op),+];

        /// Returns the keys that built-in operations read from the JSON, each in its own way.
        fn built_in(json: &Value) -> impl Iterator<Item = SemanticsKey> {
            let keys = [$(
                serde_json::from_value::<super::$Key>(json.clone()).ok().map(SemanticsKey::from)
            ),+];
            keys.into_iter().flatten()
        }
    };
}
operations!(readers);

impl SemanticsKey {
    /// Returns the key in the JSON of a record. Returns `None` if this release does not know it, because the operation
    /// has an unknown setting or value. The text of another crate's key stays in memory until the program ends.
    pub fn from_json(json: &Value) -> Option<Self> {
        if BUILT_IN.contains(&json["op"].as_str()?) {
            // An unknown setting would change the maths.
            let says_the_same =
                |key: &Self| serde_json::to_value(key).is_ok_and(|own| own == *json);
            return built_in(json).find(says_the_same);
        }
        custom_key(json).map(Self::Custom)
    }
}

fn custom_key(json: &Value) -> Option<CustomKey> {
    let word = |text: &str| custom::is_word(text).then(|| &*text.to_owned().leak());
    let settings = json.as_object()?.iter().filter(|(name, _)| *name != "op");
    let settings: Option<Vec<_>> = settings
        .map(|(name, value)| Some((word(name)?, word(value.as_str()?)?)))
        .collect();
    Some(CustomKey::new(
        word(json["op"].as_str()?)?,
        settings?.leak(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::*;
    use serde_json::json;

    #[test]
    fn keys_come_back() {
        for key in [
            SemanticsKey::RmsNorm(RmsNormKey::GEMMA),
            SemanticsKey::AddRmsNorm(AddRmsNormKey::LLAMA),
            SemanticsKey::LayerNorm(LayerNormKey::COHERE),
            SemanticsKey::Glu(GluKey::SWIGLU),
            SemanticsKey::Rope(RopeKey::LLAMA),
            SemanticsKey::QkNormRope(QkNormRopeKey::GEMMA3),
            SemanticsKey::Attention(AttentionKey::CAUSAL),
            SemanticsKey::CrossEntropy(CrossEntropyKey::MEAN),
            SemanticsKey::LinearCrossEntropy(LinearCrossEntropyKey::MEAN),
            SemanticsKey::LinearDivergence(LinearDivergenceKey::PLAIN),
            SemanticsKey::AdamW(AdamWKey),
            SemanticsKey::MoeExperts(MoeExpertsKey::GPT_OSS),
            SemanticsKey::MoeBlock(MoeBlockKey::QWEN2_MOE),
            SemanticsKey::Custom(CustomKey::new("soft_cap", &[("base", "tanh")])),
            SemanticsKey::Custom(CustomKey::new("pool", &[("window", "2"), ("kind", "mean")])),
        ] {
            let json = serde_json::to_value(key).unwrap();
            assert_eq!(SemanticsKey::from_json(&json), Some(key), "{json}");
        }
    }

    #[test]
    fn keys_of_other_releases_are_not_taken_for_ones_of_this() {
        let known = serde_json::to_value(SemanticsKey::RmsNorm(RmsNormKey::LLAMA)).unwrap();
        let with = |name: &str, value: Value| {
            let mut key = known.clone();
            key[name] = value;
            key
        };
        for json in [
            with("tilt", json!("left")),
            with("rounding", json!("none")),
            with("op", json!("rope")),
            json!({ "op": "rms_norm" }),
            json!({ "op": "adam_w", "variant": "amsgrad" }),
            json!({ "op": "moe", "part": "other" }),
            json!({ "op": "soft cap" }),
            json!({ "op": "soft_cap", "base": 2 }),
            json!({}),
            json!("rms_norm"),
        ] {
            assert_eq!(SemanticsKey::from_json(&json), None, "{json}");
        }
    }
}

//! The known name that is nearest to an unknown one.

/// The ends of class names, in which classes do not differ.
const ENDS: [&str; 2] = ["ForCausalLM", "ForConditionalGeneration"];

/// Returns `; the nearest is …`, or nothing if no name is near: more than half of the characters would have to change.
pub(crate) fn hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wanted, known) {
        Some(name) => format!("; the nearest is {name}"),
        None => String::new(),
    }
}

/// Returns `; the nearest missing one is …`, or nothing if no name is very near: more than a fifth would have to change.
pub(crate) fn missing<'a>(wanted: &str, missing: impl IntoIterator<Item = &'a str>) -> String {
    match closest(wanted, missing) {
        Some((distance, name)) if 5 * distance <= wanted.chars().count() => {
            format!("; the nearest missing one is `{name}`")
        }
        _ => String::new(),
    }
}

/// Returns the known name that a misspelt one means: at most two characters differ, and not the first.
pub(crate) fn meant<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let first = written.chars().next();
    let alike = known
        .into_iter()
        .filter(|name| name.chars().next() == first);
    let (distance, name) = closest(written, alike)?;
    (distance <= 2 && written.chars().count() > 6).then_some(name)
}

/// Returns the known name with the smallest edit distance, if it is near.
pub(crate) fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let (distance, name) = closest(wanted, known)?;
    (2 * distance <= core(wanted).chars().count()).then_some(name)
}

/// Returns the known name with the smallest edit distance, and that distance.
fn closest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    // The distance takes time in proportion to both lengths, and no name is longer.
    const LONGEST: usize = 200;
    let wanted = core(wanted);
    if wanted.len() > LONGEST {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(&wanted, &core(name));
    let distances = known.into_iter().map(|name| (distance(name), name));
    distances.min_by_key(|(distance, _)| *distance)
}

/// Returns a name without case, and a class without its end.
fn core(name: &str) -> String {
    let core = ENDS.iter().find_map(|end| name.strip_suffix(end));
    core.unwrap_or(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_near_if_at_most_half_of_them_differs() {
        let known = [
            "LlamaForCausalLM",
            "Qwen3ForCausalLM",
            "Qwen3MoeForCausalLM",
        ];
        for (wanted, expected) in [
            ("Qwen3NextForCausalLM", Some("Qwen3ForCausalLM")),
            ("Qwen4MoeForCausalLM", Some("Qwen3MoeForCausalLM")),
            ("LLamaForCausalLM", Some("LlamaForCausalLM")),
            ("FalconForCausalLM", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, known), expected, "{wanted}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }

    #[test]
    fn a_misspelt_name_begins_like_the_one_that_is_meant() {
        let known = ["v_head_dim", "num_attention_heads", "qkv_bias"];
        assert_eq!(meant("num_attention_head", known), Some(known[1]));
        assert_eq!(meant("num_atention_haeds", known), Some(known[1]));
        for other in ["qk_head_dim", "num_key_value_heads", "q_bias"] {
            assert_eq!(meant(other, known), None, "{other}");
        }
    }

    #[test]
    fn a_tensor_is_near_if_a_fifth_of_its_name_differs() {
        let known = ["model.norm.weight"];
        assert_eq!(
            missing("model.nrom.weight", known),
            "; the nearest missing one is `model.norm.weight`"
        );
        assert_eq!(missing("transformer.h.0.attn.weight", known), "");
    }
}

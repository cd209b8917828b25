//! Suggestions for misspelled names.

/// Returns the message for an unknown name: the nearest known name, and all known ones.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let shown = kernels_io::escape(name);
    let near = nearest(name, known.iter().copied())
        .map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    if known.is_empty() {
        return format!("unknown {what} `{shown}`: the program has none");
    }
    format!(
        "unknown {what} `{shown}`{near}; known: {}",
        known.join(", ")
    )
}

/// The length, in bytes, from which a name gets no suggestion.
const LONGEST: usize = 200;

/// Returns the known name with the smallest edit distance, unless more than a third of it must change.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The comparison with each known name takes time in proportion to the length.
    if name.len() > LONGEST {
        return None;
    }
    known
        .into_iter()
        .map(|known| (strsim::osa_distance(name, known), known))
        .min()
        .filter(|(distance, known)| distance * 3 <= known.chars().count().max(3))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_proposed() {
        let known = ["npu_fused_rope", "npu_fused_swiglu"];
        assert_eq!(nearest("npu_fused_rop", known), Some("npu_fused_rope"));
        assert_eq!(nearest("flash", known), None);
        assert_eq!(nearest(&"npu_fused_rope".repeat(100_000), known), None);
        let message = unknown("kernel", "npu_fused_swigl", known);
        assert!(message.contains("did you mean `npu_fused_swiglu`?"));
        assert!(message.contains("known: npu_fused_rope, npu_fused_swiglu"));
        assert!(unknown("site", "x", []).contains("the program has none"));
    }
}

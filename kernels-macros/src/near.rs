//! Suggestions for unknown words, and lists of the known ones.

/// ``; did you mean `weight`?`` if a known word is close to `written`, else nothing.
pub(crate) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(written, known) {
        Some(word) => format!("; did you mean `{word}`?"),
        None => String::new(),
    }
}

/// The known word that was most likely meant: at most a third of it differs and something is
/// kept, or it contains the written word whole (`rmsnorm` for `npu_fused_rmsnorm`).
fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    known
        .into_iter()
        .filter_map(|word| {
            let distance = strsim::osa_distance(&written, word);
            let close = distance <= word.len().max(3) / 3 && distance < written.chars().count();
            let part = written.len() >= 3 && (word.contains(&written) || written.contains(word));
            (close || part).then_some((distance, word))
        })
        .min()
        .map(|(_, word)| word)
}

/// `` `a`, `b` or `c` ``, with `last` as the joining word.
pub(crate) fn list<S: AsRef<str>>(words: impl IntoIterator<Item = S>, last: &str) -> String {
    let words: Vec<String> = words
        .into_iter()
        .map(|word| format!("`{}`", word.as_ref()))
        .collect();
    match words.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [init @ .., end] => format!("{} {last} {end}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_close() {
        let known = ["npu_fused_rmsnorm", "npu_fused_swiglu", "npu_fused_rope"];
        assert_eq!(
            nearest("npu_fused_rmsnrom", known),
            Some("npu_fused_rmsnorm")
        );
        assert_eq!(nearest("swiglu", known), Some("npu_fused_swiglu"));
        assert_eq!(nearest("NPU_FUSED_ROPE", known), Some("npu_fused_rope"));
        assert_eq!(nearest("flash_attention", known), None);
        assert_eq!(
            did_you_mean("ep", ["eps", "weight"]),
            "; did you mean `eps`?"
        );
    }

    #[test]
    fn lists_read_as_prose() {
        assert_eq!(list(["a"], "or"), "`a`");
        assert_eq!(list(["a", "b", "c"], "and"), "`a`, `b` and `c`");
    }
}

//! Near matches for words that nobody knows, and lists of the words that are known.

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
            let distance = edit_distance(&written, word);
            let close = distance <= word.len().max(3) / 3 && distance < written.chars().count();
            let part = written.len() >= 3 && (word.contains(&written) || written.contains(word));
            (close || part).then_some((distance, word))
        })
        .min()
        .map(|(_, word)| word)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[from.len()][to.len()]
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
    fn distance_counts_edits() {
        assert_eq!(edit_distance("weight", "weight"), 0);
        assert_eq!(edit_distance("wieght", "weight"), 1);
        assert_eq!(edit_distance("eps", "epsilon"), 4);
        assert_eq!(edit_distance("", "abc"), 3);
    }

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

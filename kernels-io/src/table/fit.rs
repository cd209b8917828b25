//! Widths of columns, and text that fits a width.

use super::Fit;

/// The smallest width of a column. A table of many columns may be wider than a very narrow place.
const NARROWEST: usize = 3;

/// The sign for omitted parts of a path.
const ELLIPSIS: &str = "…";

/// Returns the smallest width that breaks no word of this text and cuts none of a path's last segments.
pub(super) fn least(text: &str, fit: Fit) -> usize {
    let width = |text: &str| text.chars().count();
    match fit {
        Fit::Wrap => words(text).map(width).max().unwrap_or(0),
        Fit::Item => width(&last(text, "::", 2)),
        Fit::File => width(&last(text, "/", 1)),
    }
}

/// Returns widths for columns that share `room`. The widest shrink first, and no column becomes narrower than its words
/// if that is enough.
pub(super) fn widths<const N: usize>(
    natural: [usize; N],
    least: [usize; N],
    room: usize,
) -> [usize; N] {
    let sum = |widths: &[usize; N]| widths.iter().sum::<usize>();
    if sum(&natural) <= room {
        return natural;
    }
    let (wanted, floor) = match sum(&least) <= room {
        true => (natural, least),
        false => (least, least.map(|width| width.min(NARROWEST))),
    };
    let capped = |cap: usize| -> [usize; N] {
        std::array::from_fn(|column| wanted[column].min(cap).max(floor[column]))
    };
    let widest = wanted.into_iter().max().unwrap_or(0);
    // Bisects, because text from a file may be long.
    let (mut fits, mut too_wide) = (0, widest + 1);
    while too_wide - fits > 1 {
        let cap = fits + (too_wide - fits) / 2;
        match sum(&capped(cap)) <= room {
            true => fits = cap,
            false => too_wide = cap,
        }
    }
    let mut widths = capped(fits);
    let mut left = room.saturating_sub(sum(&widths));
    for (width, wanted) in widths.iter_mut().zip(wanted) {
        let more = left.min(wanted - (*width).min(wanted)).min(1);
        *width += more;
        left -= more;
    }
    widths
}

/// Returns the text as lines of at most `width` columns.
pub(crate) fn lines(text: &str, width: usize, fit: Fit) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    match fit {
        Fit::Wrap => wrapped(text, width),
        Fit::Item => vec![shortened(text, width, "::", 2)],
        Fit::File => vec![shortened(text, width, "/", 1)],
    }
}

/// Returns the words between which lines may break. A setting with its value, `offset = 0`, counts as one word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(' ');
        if rest.is_empty() {
            return None;
        }
        let mut blanks = rest.match_indices(' ').map(|(at, _)| at);
        let is_inside = |at: &usize| rest[..*at].ends_with('=') || rest[at + 1..].starts_with("= ");
        let end = blanks.find(|at| !is_inside(at)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut free = 0;
    for word in words(text) {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if length < free => {
                line.push(' ');
                line.push_str(word);
                free -= length + 1;
            }
            _ => {
                lines.extend(broken(word, width));
                let used = lines.last().map_or(0, |line| line.chars().count());
                free = width - used.min(width);
            }
        }
    }
    lines
}

/// Splits a word that is longer than a line. Pieces end after a separator if there is one.
fn broken(word: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let letters: Vec<char> = word.chars().collect();
    let mut rest = letters.as_slice();
    while rest.len() > width {
        let marks = |c: &char| matches!(c, ' ' | '_' | ':' | '/' | '-' | ',' | '(');
        let mark = rest[..width].iter().rposition(marks);
        let (piece, after) = rest.split_at(mark.map_or(width, |at| at + 1));
        let piece: String = piece.iter().collect();
        pieces.push(piece.trim_end().to_owned());
        rest = after;
    }
    pieces.push(rest.iter().collect());
    pieces
}

/// Returns the last `count` segments of a path, after a sign for the omitted ones.
fn last(path: &str, separator: &str, count: usize) -> String {
    let starts = path.rmatch_indices(separator).map(|(at, _)| at);
    match starts.take(count).nth(count - 1) {
        Some(at) => format!("{ELLIPSIS}{}", &path[at..]),
        None => path.to_owned(),
    }
}

/// Returns as many of the last segments as fit `width` columns. If these are fewer than `least`, returns the end of the
/// path: `…Mlp::forward` tells more than `…::forward`.
fn shortened(path: &str, width: usize, separator: &str, least: usize) -> String {
    let starts = path.match_indices(separator).map(|(at, _)| &path[at..]);
    let mut tails = starts.map(|tail| (tail, tail.chars().count() + 1));
    if let Some((tail, _)) = tails.find(|(_, length)| *length <= width)
        && tail.matches(separator).count() >= least
    {
        return format!("{ELLIPSIS}{tail}");
    }
    let length = path.chars().count();
    let end = path.chars().skip(length + 1 - width.clamp(1, length));
    format!("{ELLIPSIS}{}", end.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_settings_together() {
        let all: Vec<_> = words("a b = c, d  e= f").collect();
        assert_eq!(all, ["a", "b = c,", "d", "e= f"]);
        assert_eq!(words("").count(), 0);
    }

    #[test]
    fn lines_break_between_words_and_in_long_ones_behind_a_mark() {
        assert_eq!(lines("one two three", 7, Fit::Wrap), ["one two", "three"]);
        assert_eq!(
            lines("npu_fused_rope x", 11, Fit::Wrap),
            ["npu_fused_", "rope x"]
        );
        assert_eq!(lines("abcdefgh", 3, Fit::Wrap), ["abc", "def", "gh"]);
        assert_eq!(lines("größe größe", 5, Fit::Wrap), ["größe", "größe"]);
    }

    #[test]
    fn paths_keep_their_last_segments() {
        let item = |width| lines("a::bc::Mlp::forward", width, Fit::Item).remove(0);
        assert_eq!(item(19), "a::bc::Mlp::forward");
        assert_eq!(item(18), "…::Mlp::forward");
        assert_eq!(item(14), "…:Mlp::forward");
        assert_eq!(item(11), "…p::forward");
        assert_eq!(item(5), "…ward");
        assert_eq!(item(1), "…");
        let file = |width| lines("/home/me/src/llama.rs:12", width, Fit::File).remove(0);
        assert_eq!(file(19), "…/src/llama.rs:12");
        assert_eq!(file(14), "…/llama.rs:12");
    }

    #[test]
    fn the_widest_column_gives_way_first_and_words_last() {
        assert_eq!(widths([5, 6], [5, 6], 11), [5, 6]);
        assert_eq!(widths([5, 60], [5, 10], 40), [5, 35]);
        assert_eq!(widths([50, 60], [10, 40], 60), [20, 40]);
        assert_eq!(widths([50, 50], [10, 10], 61), [31, 30]);
        // The words don't fit.
        assert_eq!(widths([9, 50], [9, 40], 29), [9, 20]);
        assert_eq!(widths([9, 50], [9, 40], 1), [3, 3]);
    }
}

//! Generated token ids as text, piece by piece.

use super::{TextError, Tokenizer};

/// Turns generated token ids into text while they come. Pieces never end within a character, and never hold a part of
/// a stop string.
///
/// All pieces together are the text of [`Tokenizer::decode`], up to the first stop string.
#[derive(Debug)]
pub struct Writer<'a> {
    tokenizer: &'a Tokenizer,
    stops: &'a [String],
    ids: Vec<u32>,
    /// The number of ids whose text is complete and known. The text of later ids is found by decoding them together
    /// with those from `from`.
    decoded: usize,
    from: usize,
    /// The text that was decoded and not yet returned, because a stop string may begin in it.
    held: String,
    text: String,
    stopped: bool,
}

/// The character that the tokenizer gives for an incomplete one. At the end of a text, the next token may complete it.
const INCOMPLETE: char = char::REPLACEMENT_CHARACTER;

impl<'a> Writer<'a> {
    /// Returns a writer that ends at the first of the stop strings, none of which may be empty.
    pub fn new(tokenizer: &'a Tokenizer, stops: &'a [String]) -> Self {
        Self {
            tokenizer,
            stops,
            ids: Vec::new(),
            decoded: 0,
            from: 0,
            held: String::new(),
            text: String::new(),
            stopped: false,
        }
    }

    /// Takes the next id. Returns the text that is certain now, which can be empty.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn push(&mut self, id: u32) -> Result<String, TextError> {
        if self.stopped {
            return Ok(String::new());
        }
        self.ids.push(id);
        let known = self.tokenizer.decode(&self.ids[self.from..self.decoded])?;
        let all = self.tokenizer.decode(&self.ids[self.from..])?;
        if all.ends_with(INCOMPLETE) || all.len() <= known.len() {
            return Ok(String::new());
        }
        let new = behind(&all, &known).to_owned();
        self.from = self.decoded;
        self.decoded = self.ids.len();
        Ok(self.take(&new, false))
    }

    /// Ends the text. Returns its last piece: the text that was held back, and the bytes of an incomplete character as
    /// `U+FFFD`.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn finish(&mut self) -> Result<String, TextError> {
        if self.stopped {
            return Ok(String::new());
        }
        let known = self.tokenizer.decode(&self.ids[self.from..self.decoded])?;
        let all = self.tokenizer.decode(&self.ids[self.from..])?;
        self.decoded = self.ids.len();
        Ok(self.take(behind(&all, &known), true))
    }

    /// Returns `true` once a stop string was found.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Returns all text that was returned in pieces.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds text to the held one. Returns the part that no stop string can begin in, or all of it at the end.
    fn take(&mut self, new: &str, end: bool) -> String {
        self.held.push_str(new);
        // The one that is complete first ends the text, whatever the tokens are.
        let found = self.stops.iter().filter_map(|stop| {
            let at = self.held.find(stop.as_str())?;
            Some((at + stop.len(), at))
        });
        let first = found.min().map(|(_, at)| at);
        let piece = match first {
            Some(at) => {
                self.stopped = true;
                self.held.truncate(at);
                std::mem::take(&mut self.held)
            }
            None if end => std::mem::take(&mut self.held),
            None => {
                let begun = self.stops.iter().map(|stop| begun(&self.held, stop)).max();
                let held = self.held.split_off(self.held.len() - begun.unwrap_or(0));
                std::mem::replace(&mut self.held, held)
            }
        };
        self.text.push_str(&piece);
        piece
    }
}

/// Returns the text behind the known one.
fn behind<'a>(all: &'a str, known: &str) -> &'a str {
    // A decoder may change the end of earlier text, by taking a blank away. What was returned stays.
    all.get(known.len()..).unwrap_or_default()
}

/// Returns the length of the longest end of a text that is a start of the stop string.
fn begun(text: &str, stop: &str) -> usize {
    let starts = stop.char_indices().map(|(at, _)| at);
    let ends = starts.filter(|&length| text.ends_with(&stop[..length]));
    ends.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_stop_string_is_held_back() {
        for (text, stop, length) in [
            ("abc", "cd", 1),
            ("abc", "bcd", 2),
            ("aa", "aaa", 2),
            ("é", "é!", 2),
            ("abc", "x", 0),
            ("", "x", 0),
        ] {
            assert_eq!(begun(text, stop), length, "{text} {stop}");
        }
    }
}

//! Inputs from others.

use fastrand::Rng;

/// No input is longer.
const LONGEST: usize = 1 << 16;

/// Kept inputs beyond the corpus.
const MOST_KEPT: usize = 4096;

/// Numbers at which something changes.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    65_535,
    65_536,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 53,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Makes inputs from the corpus, and from inputs that brought something new.
pub(crate) struct Mutator<'a> {
    random: Rng,
    inputs: Vec<Vec<u8>>,
    words: &'a [&'a str],
    given: usize,
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, corpus: Vec<Vec<u8>>, words: &'a [&'a str]) -> Self {
        Self {
            random: Rng::with_seed(seed),
            given: corpus.len(),
            inputs: corpus,
            words,
        }
    }

    /// Takes an input for others to be made from.
    pub(crate) fn keep(&mut self, input: Vec<u8>) {
        if self.inputs.len() < self.given + MOST_KEPT {
            self.inputs.push(input);
        }
    }

    pub(crate) fn make(&mut self) -> Vec<u8> {
        let mut input = self.one().to_vec();
        self.mutate(&mut input);
        // Mostly few, so that most of an input stays good.
        while self.random.u8(..3) == 0 {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    /// One of the corpus half of the time: what is kept drifts away from what is accepted.
    fn one(&mut self) -> &[u8] {
        let among = match self.random.bool() {
            true => self.given,
            false => self.inputs.len(),
        };
        let index = self.random.usize(..among);
        &self.inputs[index]
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        match self.random.u32(0..11) {
            0 => self.flip(input),
            1 => self.overwrite(input),
            2 => self.overwrite_number(input),
            3 => self.replace_digits(input),
            4 => {
                let piece: Vec<u8> = (0..self.random.usize(1..9)).map(|_| self.byte()).collect();
                self.insert(input, &piece);
            }
            5 => {
                let range = self.range(input.len());
                input.drain(range);
            }
            6 => {
                let piece = input[self.range(input.len())].to_vec();
                let times = [1, 1, 1, 2, 50][self.random.usize(..5)];
                self.insert(input, &piece.repeat(times));
            }
            7 => {
                let piece = self.piece();
                self.insert(input, &piece);
            }
            8 => {
                let end = self.random.usize(..=input.len());
                input.truncate(end);
            }
            _ => {
                let Some(word) = self.word() else {
                    return self.flip(input);
                };
                match self.random.bool() {
                    true => self.insert(input, word.as_bytes()),
                    false => {
                        let range = self.range(input.len());
                        input.splice(range, word.bytes());
                    }
                }
            }
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let index = self.random.usize(..self.words.len().max(1));
        self.words.get(index).copied()
    }

    /// A part of another input.
    fn piece(&mut self) -> Vec<u8> {
        let other = self.one().to_vec();
        other[self.range(other.len())].to_vec()
    }

    /// Short ones more often than long ones.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.usize(..=length);
        let most = (length - start).min(1 << self.random.u32(0..12));
        start..start + self.random.usize(..=most)
    }

    fn byte(&mut self) -> u8 {
        match self.random.bool() {
            true => self.random.u8(..),
            false => b"\0\xff\x1b\n\"\\{}[],:.-+@= "[self.random.usize(..18)],
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>, piece: &[u8]) {
        if input.len() + piece.len() <= LONGEST {
            let at = self.random.usize(..=input.len());
            input.splice(at..at, piece.iter().copied());
        }
    }

    fn flip(&mut self, input: &mut [u8]) {
        if let Some(at) = self.place(input.len()) {
            input[at] ^= 1 << self.random.u32(0..8);
        }
    }

    fn overwrite(&mut self, input: &mut [u8]) {
        if let Some(at) = self.place(input.len()) {
            input[at] = self.byte();
        }
    }

    /// A binary number, in either order of bytes.
    fn overwrite_number(&mut self, input: &mut [u8]) {
        let Some(at) = self.place(input.len()) else {
            return;
        };
        let number = NUMBERS[self.random.usize(..NUMBERS.len())];
        let width = [2, 4, 8][self.random.usize(..3)].min(input.len() - at);
        let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
        match self.random.bool() {
            true => input[at..at + width].copy_from_slice(&little[..width]),
            false => input[at..at + width].copy_from_slice(&big[8 - width..]),
        }
    }

    /// A number in text.
    fn replace_digits(&mut self, input: &mut Vec<u8>) {
        let Some(from) = self.place(input.len()) else {
            return;
        };
        let Some(start) = input[from..].iter().position(u8::is_ascii_digit) else {
            return;
        };
        let start = from + start;
        let digits = input[start..].iter().take_while(|b| b.is_ascii_digit());
        let end = start + digits.count();
        let number = NUMBERS[self.random.usize(..NUMBERS.len())];
        let sign = if self.random.u8(..4) == 0 { "-" } else { "" };
        input.splice(start..end, format!("{sign}{number}").bytes());
    }

    fn place(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.random.usize(..length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_and_they_stay_short() {
        let corpus = vec![b"[1, 22, 333]".to_vec(), b"{\"a\": [true, null]}".to_vec()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed, corpus.clone(), &["word"]);
            let made: Vec<_> = (0..2000).map(|_| mutator.make()).collect();
            made
        };
        let made = inputs(7);
        assert_eq!(made, inputs(7));
        assert_ne!(made, inputs(8));
        assert!(made.iter().all(|input| input.len() <= LONGEST));
        let different: std::collections::HashSet<_> = made.iter().collect();
        // Few mutations of so few bytes are the same.
        assert!(different.len() > 1000, "{} are different", different.len());
    }
}

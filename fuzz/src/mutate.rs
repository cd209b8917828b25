//! Mutations of inputs.

use fastrand::Rng;

/// The length of the longest input, in bytes.
const LONGEST: usize = 1 << 16;

/// The largest number of inputs that are kept in addition to the corpus.
const MOST_KEPT: usize = 4096;

/// Numbers at typical limits.
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

/// A source of inputs, made from the corpus and from inputs with new answers.
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

    /// Keeps an input as material for others.
    pub(crate) fn keep(&mut self, input: Vec<u8>) {
        if self.inputs.len() < self.given + MOST_KEPT {
            self.inputs.push(input);
        }
    }

    pub(crate) fn make(&mut self) -> Vec<u8> {
        let mut input = self.one().to_vec();
        self.mutate(&mut input);
        // Mostly few mutations, so that most of an input stays valid.
        while self.random.u8(..3) == 0 {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    /// Returns a random input. Half of the time it is one of the corpus, because kept inputs drift away from valid
    /// ones.
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

    /// Returns a part of another input.
    fn piece(&mut self) -> Vec<u8> {
        let other = self.one().to_vec();
        other[self.range(other.len())].to_vec()
    }

    /// Returns a random range, more often a short one than a long one.
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

    /// Overwrites a binary number, in either byte order.
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

    /// Replaces a number in text.
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
        // Mutations of so few bytes can coincide, but seldom do.
        assert!(different.len() > 1000, "{} are different", different.len());
    }
}

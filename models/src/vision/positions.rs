//! The positions of tokens among which are pictures and clips (`get_rope_index` of `transformers`).

use std::collections::VecDeque;

use super::Grid;
use crate::error::ModelError;

/// The tokens that stand for parts of pictures and of clips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// The token of parts of pictures: `image_token_id`.
    pub image: i64,
    /// The token of parts of clips: `video_token_id`.
    pub video: i64,
}

/// A clip among tokens.
#[derive(Debug, Clone, Copy)]
pub enum Clip {
    /// All frames stand one after the other, `interval` positions apart, rounded down (Qwen2.5-VL).
    Whole {
        /// The numbers of patches.
        grid: Grid,
        /// The positions between frames: `tokens_per_second` times the seconds between frames that patches join.
        interval: f64,
    },
    /// Text stands before each frame, which is a picture of its own (Qwen3-VL).
    Frames {
        /// The numbers of patches.
        grid: Grid,
    },
}

/// Rows of tokens.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    /// The tokens, row by row.
    pub ids: &'a [i64],
    /// The length of a row, at least 1.
    pub columns: usize,
    /// True for tokens and false for padding, if there is padding.
    pub is_token: Option<&'a [bool]>,
    /// The tokens that stand for parts of pictures and of clips.
    pub marks: Marks,
}

/// The positions of tokens.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TokenPositions {
    /// Three for each token, `[3, rows, columns]`: time, height and width. They are 0 at padding.
    pub ids: Vec<i64>,
    /// The number that is added to the number of tokens of each row to get the position of the next token.
    pub deltas: Vec<i64>,
    /// The places of the tokens of pictures, in their order: `row · columns + column`.
    pub images: Vec<usize>,
    /// The places of the tokens of clips.
    pub videos: Vec<usize>,
}

/// A picture, or a clip or frame of one, as tokens.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Frames, rows and columns of tokens.
    grid: Grid,
    /// The positions between frames.
    interval: f64,
}

/// The pictures or the clips of a batch.
struct Kind {
    what: &'static str,
    mark: i64,
    /// The pictures or clips without tokens so far.
    left: VecDeque<Part>,
    /// The places of the tokens of all others.
    places: Vec<usize>,
}

impl Tokens<'_> {
    /// Returns the positions of the tokens. Each picture and clip takes as many marks as it has blocks of `merge · merge`
    /// patches; text goes on behind the longer side of the last one.
    ///
    /// # Errors
    /// Returns [`ModelError::Input`] if there are more or fewer marks than tokens of pictures and clips, for a picture or
    /// clip without tokens or not of whole blocks, for positions between frames beyond 0 to 1000000, and if rows are not
    /// whole.
    pub fn positions(
        self,
        pictures: &[Grid],
        clips: &[Clip],
        merge: usize,
    ) -> Result<TokenPositions, ModelError> {
        let tokens = self.ids.len();
        let is_whole = self.columns > 0 && tokens.is_multiple_of(self.columns);
        let problem = match self.is_token {
            _ if !is_whole => format!("{tokens} tokens are not whole rows of {}", self.columns),
            _ if merge == 0 => "a block must have at least one patch".into(),
            _ if !clips.iter().all(Clip::has_steps) => {
                "the positions between the frames of a clip must be a number from 0 to 1000000"
                    .into()
            }
            _ if !are_countable(pictures, clips, merge, tokens) => {
                format!(
                    "a picture or clip has no tokens or more than can be counted, or is not whole blocks of {merge} by \
                     {merge} patches"
                )
            }
            Some(mask) if mask.len() != tokens => {
                format!("there are {tokens}, but a mask of {}", mask.len())
            }
            _ => match self.found(pictures, clips, merge) {
                Ok(found) => return Ok(found),
                Err(problem) => problem,
            },
        };
        Err(ModelError::Input {
            input: "input_ids",
            problem,
        })
    }

    fn found(
        self,
        pictures: &[Grid],
        clips: &[Clip],
        merge: usize,
    ) -> Result<TokenPositions, String> {
        let pictures = pictures.iter().map(|grid| Part {
            grid: grid.merged(merge),
            interval: 1.0,
        });
        let clips = clips.iter().flat_map(|clip| clip.parts(merge));
        let mut kinds = [
            Kind::new("picture", self.marks.image, pictures),
            Kind::new("clip", self.marks.video, clips),
        ];
        let mut found = TokenPositions {
            ids: vec![0; 3 * self.ids.len()],
            ..TokenPositions::default()
        };
        for row in 0..self.ids.len() / self.columns {
            let places = self.tokens_of(row);
            let (mut rest, mut position, mut last) = (places.as_slice(), 0, -1);
            while let [place, behind @ ..] = rest {
                let mark = self.ids[*place];
                let Some(kind) = kinds.iter_mut().find(|kind| kind.mark == mark) else {
                    found.put(*place, [position; 3]);
                    last = last.max(position);
                    position += 1;
                    rest = behind;
                    continue;
                };
                let marks = rest
                    .iter()
                    .take_while(|place| self.ids[**place] == mark)
                    .count();
                let part = kind.next(marks).map_err(|problem| {
                    format!("row {row}, column {}: {problem}", place % self.columns)
                })?;
                let (own, behind) = rest.split_at(part.grid.count());
                kind.places.extend(own);
                last = last.max(found.put_part(own, part, position));
                position += part.grid.rows.max(part.grid.columns) as i64;
                rest = behind;
            }
            found.deltas.push(last + 1 - places.len() as i64);
        }
        let [images, videos] = kinds;
        found.images = images.finish()?;
        found.videos = videos.finish()?;
        Ok(found)
    }

    /// Returns the places of the tokens of a row, without padding.
    fn tokens_of(self, row: usize) -> Vec<usize> {
        let places = row * self.columns..(row + 1) * self.columns;
        let is_token = |place: &usize| self.is_token.is_none_or(|is_token| is_token[*place]);
        places.filter(is_token).collect()
    }
}

impl Clip {
    /// Returns `true` if the positions of its frames can be counted: it has at most as many frames as there are tokens.
    fn has_steps(&self) -> bool {
        match self {
            Self::Whole { interval, .. } => (0.0..=1e6).contains(interval),
            Self::Frames { .. } => true,
        }
    }

    /// Returns the parts of a clip that stand apart in the tokens.
    fn parts(&self, merge: usize) -> impl Iterator<Item = Part> + use<> {
        let (grid, interval, times) = match *self {
            Self::Whole { grid, interval } => (grid, interval, 1),
            Self::Frames { grid } => (Grid { frames: 1, ..grid }, 1.0, grid.frames),
        };
        let grid = grid.merged(merge);
        std::iter::repeat_n(Part { grid, interval }, times)
    }
}

impl Kind {
    fn new(what: &'static str, mark: i64, parts: impl Iterator<Item = Part>) -> Self {
        Self {
            what,
            mark,
            left: parts.collect(),
            places: Vec::new(),
        }
    }

    /// Returns the next picture or clip, of which at most `marks` tokens follow each other.
    fn next(&mut self, marks: usize) -> Result<Part, String> {
        let Self { what, mark, .. } = *self;
        let Some(part) = self.left.pop_front() else {
            return Err(format!(
                "token {mark} stands for a part of a {what}, and no {what} is left"
            ));
        };
        match part.grid.count() {
            tokens if marks < tokens => Err(format!(
                "expected {tokens} tokens {mark} for a {what}, found {marks}"
            )),
            _ => Ok(part),
        }
    }

    /// Returns the places of all tokens.
    ///
    /// # Errors
    /// Returns an error if a picture or clip is left.
    fn finish(self) -> Result<Vec<usize>, String> {
        match self.left.len() {
            0 => Ok(self.places),
            left => Err(format!(
                "{}s without tokens {}: the last {left}",
                self.what, self.mark
            )),
        }
    }
}

impl TokenPositions {
    /// Sets the three positions of a token.
    fn put(&mut self, place: usize, positions: [i64; 3]) {
        let tokens = self.ids.len() / 3;
        for (axis, position) in positions.into_iter().enumerate() {
            self.ids[axis * tokens + place] = position;
        }
    }

    /// Sets the positions of all tokens of a part. Returns the largest.
    fn put_part(&mut self, places: &[usize], part: Part, first: i64) -> i64 {
        let Part { grid, interval } = part;
        let mut last = first;
        for (token, &place) in places.iter().enumerate() {
            let (row, column) = (token / grid.columns, token % grid.columns);
            let time = ((row / grid.rows) as f64 * interval) as i64;
            let positions =
                [time, (row % grid.rows) as i64, column as i64].map(|axis| first + axis);
            self.put(place, positions);
            last = positions.into_iter().fold(last, i64::max);
        }
        last
    }
}

/// Returns `true` if every picture and clip has whole blocks, and each has at most as many frames as all rows have tokens.
fn are_countable(pictures: &[Grid], clips: &[Clip], merge: usize, tokens: usize) -> bool {
    let clips = clips.iter().map(|clip| match *clip {
        Clip::Whole { grid, .. } | Clip::Frames { grid } => grid,
    });
    let mut grids = pictures.iter().copied().chain(clips);
    grids.all(|grid| grid.frames <= tokens && grid.whole(merge).is_some())
}

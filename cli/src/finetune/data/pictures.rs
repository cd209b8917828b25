//! Pictures in the conversations of records.

use super::Example;
use super::encode::Encoder;
use super::files::Placed as Record;
use crate::pictures::{Picture, Pictures, Placed, Reader, Source, file};
use crate::text::TextError;
use anyhow::{Context, ensure};
use kernels_models::ModelConfig;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The reader of pictures, and those that it has read, by their files.
pub struct Known {
    reader: Arc<Reader>,
    read: Mutex<HashMap<PathBuf, Arc<Picture>>>,
}

impl Encoder {
    /// Reads the settings of pictures from the checkpoint, if a record has some. `distils` is true for a loss with a
    /// teacher, which sees texts alone.
    ///
    /// # Errors
    /// Returns an error that names the first record with pictures if the model or the loss takes none.
    pub fn seeing(
        mut self,
        records: &[Record],
        (folder, config): (&Path, &ModelConfig),
        distils: bool,
    ) -> anyhow::Result<Self> {
        let mut with_pictures = records.iter().filter(|(_, record)| record.has_pictures());
        let Some((place, _)) = with_pictures.next() else {
            return Ok(self);
        };
        ensure!(
            !distils,
            "{place}: the record has pictures, but --loss distill learns from texts alone; remove it"
        );
        let reader = Reader::open(folder, config);
        let reader = reader.with_context(|| format!("{place}: the record has pictures"))?;
        let known = Known {
            reader: Arc::new(reader),
            read: Mutex::default(),
        };
        self.pictures = Some(known);
        Ok(self)
    }

    /// Puts the tokens of pictures in the places of their placeholders. They are never learned.
    ///
    /// # Errors
    /// Returns an error that names a picture that can't be read, and one for more or fewer placeholders than pictures.
    pub(super) fn with_pictures(
        &self,
        example: Example,
        sources: &[Source],
    ) -> Result<Example, TextError> {
        let Some(known) = &self.pictures else {
            assert!(sources.is_empty(), "records with pictures have a reader");
            return Ok(example);
        };
        known
            .seen(example, sources)
            .map_err(|error| TextError::Conversation(format!("{error:#}")))
    }
}

impl Known {
    fn seen(&self, example: Example, sources: &[Source]) -> anyhow::Result<Example> {
        let pictures = sources.iter().map(|source| self.picture(source));
        let pictures: Vec<Arc<Picture>> = pictures.collect::<anyhow::Result<_>>()?;
        let grids: Vec<[usize; 3]> = pictures.iter().map(|picture| picture.grid()).collect();
        let (ids, tokens) = self.reader.expanded(&example.ids, &grids)?;
        if sources.is_empty() {
            // Its tokens have their places as positions.
            return Ok(example);
        }
        let positions = self.reader.positions(&ids, &grids)?;
        let learned = example.learned.iter().flat_map(|range| {
            let moved = moved(range.start, &tokens)..moved(range.end, &tokens);
            outside(moved, &tokens)
        });
        let learned = learned.collect();
        let placed = pictures.into_iter().zip(tokens);
        let list = placed.map(|(picture, tokens)| Placed { picture, tokens });
        let list = list.collect();
        Ok(Example {
            ids,
            learned,
            pictures: Pictures { positions, list },
        })
    }

    /// Reads a picture, unless another record has the same file.
    fn picture(&self, source: &Source) -> anyhow::Result<Arc<Picture>> {
        let read = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let file = file(source);
        if let Some(known) = file.and_then(|file| read().get(file).cloned()) {
            return Ok(known);
        }
        let picture = Arc::new(self.reader.picture(source)?);
        if let Some(file) = file {
            read().insert(file.to_owned(), picture.clone());
        }
        Ok(picture)
    }
}

/// Returns the place of a token after those of pictures, in these ranges, took the places of their placeholders.
fn moved(place: usize, pictures: &[Range<usize>]) -> usize {
    let mut moved = place;
    for picture in pictures {
        if picture.start >= moved {
            break;
        }
        moved += picture.len() - 1;
    }
    moved
}

/// Returns the parts of a range without the tokens of pictures, which are in order.
fn outside(range: Range<usize>, pictures: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut left, mut start) = (Vec::new(), range.start);
    for picture in pictures {
        if picture.start < range.end && picture.end > start {
            left.push(start..picture.start.max(start));
            start = picture.end.min(range.end);
        }
    }
    left.push(start..range.end);
    left.retain(|range| !range.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_tokens_move_behind_those_of_pictures_and_leave_these_out() {
        // Placeholders at 2 and 5 became 3 tokens and 1.
        let pictures = [2..5, 7..8];
        let places: Vec<usize> = (0..8).map(|place| moved(place, &pictures)).collect();
        assert_eq!(places, [0, 1, 2, 5, 6, 7, 8, 9]);
        assert_eq!(outside(0..10, &pictures), [0..2, 5..7, 8..10]);
        assert_eq!(outside(5..7, &pictures), [Range { start: 5, end: 7 }]);
        assert_eq!(outside(2..8, &pictures), [Range { start: 5, end: 7 }]);
        assert!(outside(7..8, &pictures).is_empty());
    }
}

//! The tokens that stand for pictures.

use crate::Error;
use crate::config::{self, Fields};
use crate::error::counted;
use serde_json::{Map, Value};
use std::ops::Range;
use std::path::Path;

/// The tokens that mark the places of pictures in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholders {
    /// The token that stands for a picture, `<|image_pad|>`.
    image: u32,
    /// The token before a picture, `<|vision_start|>`, if the configuration has it.
    start: Option<u32>,
    /// The number of patches, by side, that a token is made of.
    merge: usize,
}

/// Tokens with as many placeholders as the language model has rows of pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The tokens.
    pub ids: Vec<u32>,
    /// The tokens of each picture.
    pub pictures: Vec<Range<usize>>,
}

/// The largest number of tokens, which is above the positions of all models.
const MOST_TOKENS: usize = 1 << 26;

impl Placeholders {
    /// Reads `config.json` of a checkpoint. `merge_size` is that of its image processor.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, or as [`Self::from_json`] does.
    pub fn of_folder(folder: &Path, merge_size: usize) -> Result<Self, Error> {
        let (name, object) = config::read(&folder.join("config.json"))?;
        Self::of_config(&object, merge_size).map_err(Error::setting(&name))
    }

    /// Reads the configuration of a model: `image_token_id` or `image_token_index`, `vision_start_token_id`, and
    /// `vision_config.spatial_merge_size`, those of Omni in `thinker_config`. `name` is the file's in errors.
    ///
    /// # Errors
    /// Returns an error if there is no token for pictures, or if a token of the model is not made of
    /// `merge_size · merge_size` patches.
    pub fn from_json(name: &str, json: &str, merge_size: usize) -> Result<Self, Error> {
        let object = config::parse(name, json)?;
        Self::of_config(&object, merge_size).map_err(Error::setting(name))
    }

    /// Returns the token that stands for a picture.
    pub fn image(&self) -> u32 {
        self.image
    }

    /// Writes each placeholder as often as its picture has tokens: `time · height · width / merge_size²`, of
    /// grids in the order of the placeholders.
    ///
    /// # Errors
    /// Returns an error if there are more or fewer placeholders than grids, if a placeholder doesn't follow the token
    /// that begins a picture, or if a grid can't be divided into tokens.
    pub fn expand(&self, ids: &[u32], grids: &[[usize; 3]]) -> Result<Expanded, Error> {
        let found = ids.iter().filter(|id| **id == self.image).count();
        if found != grids.len() {
            return Err(Error::Tokens(format!(
                "the conversation has {} (token {}) for {}; each picture needs one placeholder",
                counted(found, "placeholder"),
                self.image,
                counted(grids.len(), "picture")
            )));
        }
        let counts: Vec<usize> = grids
            .iter()
            .map(|grid| self.count(*grid))
            .collect::<Result<_, _>>()?;
        let total = counts
            .iter()
            .try_fold(ids.len(), |sum, count| sum.checked_add(*count));
        if total.is_none_or(|total| total > MOST_TOKENS) {
            return Err(Error::Tokens(format!(
                "the pictures have more than {MOST_TOKENS} tokens; give fewer"
            )));
        }
        let mut counts = counts.into_iter();
        let mut expanded = Expanded {
            ids: Vec::with_capacity(total.unwrap_or_default()),
            pictures: Vec::with_capacity(grids.len()),
        };
        for (at, id) in ids.iter().enumerate() {
            let count = match *id == self.image {
                true => counts.next(),
                false => None,
            };
            let Some(count) = count else {
                expanded.ids.push(*id);
                continue;
            };
            self.check_start(ids, at)?;
            let first = expanded.ids.len();
            expanded.ids.resize(first + count, self.image);
            expanded.pictures.push(first..first + count);
        }
        Ok(expanded)
    }

    /// Returns the number of tokens of a picture.
    fn count(&self, grid: [usize; 3]) -> Result<usize, Error> {
        let [time, rows, columns] = grid;
        let is_whole = rows % self.merge == 0 && columns % self.merge == 0;
        let blocks = [rows / self.merge, columns / self.merge];
        let count = time
            .checked_mul(blocks[0])
            .and_then(|count| count.checked_mul(blocks[1]));
        count.filter(|count| *count > 0 && is_whole).ok_or_else(|| {
            Error::Tokens(format!(
                "a picture of {time}×{rows}×{columns} patches can't be divided into tokens of {0}×{0} patches",
                self.merge
            ))
        })
    }

    /// Refuses a placeholder that somebody wrote into a text.
    fn check_start(&self, ids: &[u32], at: usize) -> Result<(), Error> {
        let before = at.checked_sub(1).map(|before| ids[before]);
        match self.start {
            Some(start) if before != Some(start) => Err(Error::Tokens(format!(
                "token {at} is a placeholder of a picture ({}) that doesn't follow vision_start_token_id ({start}); \
                 only the chat template may write one",
                self.image
            ))),
            _ => Ok(()),
        }
    }

    fn of_config(object: &Map<String, Value>, merge: usize) -> Result<Self, String> {
        let fields = Fields::new(object);
        let fields = fields.object("thinker_config.")?.unwrap_or(fields);
        let token = |name: &str| {
            fields
                .whole(name, [0, u64::from(u32::MAX)])
                .map(|id| id.map(|id| id as u32))
        };
        let image = token("image_token_id")?.or(token("image_token_index")?);
        let image = image.ok_or("image_token_id is missing: the model does not take pictures")?;
        if merge == 0 {
            return Err("merge_size of the image processor is 0".into());
        }
        let tower = fields.object("vision_config.")?;
        let own = tower.map_or(Ok(None), |tower| {
            tower.whole("spatial_merge_size", [1, u64::from(u32::MAX)])
        })?;
        if let Some(own) = own.filter(|own| *own != merge as u64) {
            return Err(format!(
                "vision_config.spatial_merge_size is {own}, but merge_size of the image processor is {merge}"
            ));
        }
        Ok(Self {
            image,
            start: token("vision_start_token_id")?,
            merge,
        })
    }
}

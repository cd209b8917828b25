//! Fields that are probably misspelt.

use super::{ModelConfig, altup, latent, linear, mixed, moe, parse, scores, unsupported, window};
use crate::nearest;

impl ModelConfig {
    /// Returns each field that is not read and whose name is nearly that of one that is, with the latter.
    pub(crate) fn misspelt(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let names = self.other.keys().map(String::as_str);
        names.filter_map(|name| {
            let read = self.read();
            // A field of another family is not a misspelt one of this family.
            (!read.contains(&name)).then_some(())?;
            Some((name, nearest::meant(name, read)?))
        })
    }

    /// Returns the fields that some family reads or refuses.
    fn read(&self) -> Vec<&'static str> {
        let lists = [
            parse::KNOWN,
            window::KNOWN,
            altup::KNOWN,
            latent::KNOWN,
            linear::KNOWN,
            mixed::KNOWN,
            scores::KNOWN,
        ];
        let experts = self.family().experts.as_ref();
        let lists = lists.into_iter().flatten().copied();
        let lists = lists.chain(experts.into_iter().flat_map(moe::known));
        lists.chain(unsupported::names()).collect()
    }
}

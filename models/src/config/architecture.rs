//! The model families of configurations.

use super::family::{Families, Family};
use super::fields::Fields;
use super::rewards;
use crate::error::ModelError;
use crate::nearest;

/// Defines the enumeration of families.
macro_rules! enumeration {
    ($($(#[$doc:meta])* $name:ident = $family:path, $layers:path;)+) => {
        /// A model family that can be built.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Architecture {
            $($(#[$doc])* $name,)+
        }

        impl Architecture {
            /// Every supported architecture.
            pub const ALL: [Self; [$(Self::$name),+].len()] = [$(Self::$name),+];
        }
    };
}

// The list is in `families/mod.rs`. This takes the names alone.
architectures!(enumeration);

impl Architecture {
    pub(super) fn parse(fields: Fields<'_>, families: Families) -> Result<Self, ModelError> {
        let classes = fields.strings("architectures")?;
        // Parts of Omni models have no `model_type`, or an empty one.
        let model_type = fields.string("model_type")?.filter(|name| !name.is_empty());
        let by_class = match classes.as_deref() {
            None => None,
            Some([class]) => Some(match Self::of_base(families, class, model_type) {
                Some(own) => own,
                None => Self::find((fields, families), "architectures", class, |own| {
                    own.class_name
                })?,
            }),
            Some(several) => {
                let problem = format!("expected one class, found {}", several.len());
                return Err(fields.error("architectures", problem));
            }
        };
        let by_type = model_type
            .map(|name| Self::find((fields, families), "model_type", name, |own| own.model_type))
            .transpose()?;
        match (by_class, by_type) {
            (Some(class), Some(kind)) if class != kind => {
                let problem = format!(
                    "`{}` contradicts `architectures`, which is {}",
                    families.of(kind).model_type,
                    families.of(class).class_name
                );
                Err(fields.error("model_type", problem))
            }
            (class, kind) => fields.required("architectures", class.or(kind)),
        }
    }

    /// Returns the family of a class that is not that of its language model. Of two with the same class, the type
    /// decides.
    fn of_base(families: Families, class: &str, model_type: Option<&str>) -> Option<Self> {
        let has_class = |own: &Self| {
            let family = families.of(*own);
            is_base(family, class) || rewards::is_class(family, class)
        };
        let own = Self::ALL.into_iter().filter(has_class);
        let has_type = |own: &Self| Some(families.of(*own).model_type) == model_type;
        own.clone().find(has_type).or_else(|| own.clone().next())
    }

    fn find(
        (fields, families): (Fields<'_>, Families),
        field: &str,
        wanted: &str,
        name: fn(&Family) -> &'static str,
    ) -> Result<Self, ModelError> {
        let names = Self::ALL.map(|known| name(families.of(known)));
        Self::ALL
            .into_iter()
            .find(|&known| name(families.of(known)) == wanted)
            .ok_or_else(|| {
                let nearest = nearest::hint(wanted, names);
                let known = names.join(", ");
                fields.error(
                    field,
                    format!("`{wanted}` is not supported{nearest}; supported: {known}"),
                )
            })
    }
}

/// Returns `true` for the class of a base model that was saved alone, without the output projection.
fn is_base(family: &Family, class: &str) -> bool {
    let own = family.class_name.split("For").next().unwrap_or_default();
    matches!(class.strip_prefix(own), Some("Model" | "TextModel"))
}

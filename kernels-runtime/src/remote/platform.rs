//! The platform of an NPU, as facts of a served device.

use burn_cann::{Platform, Soc, Version};

const SOC: &str = "soc";
const CANN: &str = "cann";
const VECTOR_CORES: &str = "vector_cores";

/// Returns the facts of a platform, as a server declares them.
pub fn facts(platform: &Platform) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut facts = vec![fact(SOC, platform.soc.name())];
    facts.extend(platform.version.text().map(|text| fact(CANN, text)));
    let cores = platform.vector_cores.map(|cores| cores.to_string());
    facts.extend(cores.map(|cores| fact(VECTOR_CORES, &cores)));
    facts
}

/// Reverses [`facts`], once for each device, so that checks at every call use the parsed platform.
pub(crate) fn platform(facts: &[(String, String)]) -> Platform {
    let fact = |name: &str| {
        let found = facts.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    Platform {
        soc: fact(SOC).map_or_else(Soc::unknown, Soc::from_name),
        version: fact(CANN).map_or_else(Version::unknown, Version::new),
        vector_cores: fact(VECTOR_CORES).and_then(|cores| cores.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_told_and_understood() {
        let told = Platform {
            soc: Soc::from_name("Ascend910B3"),
            version: Version::new("8.5.0"),
            vector_cores: Some(40),
        };
        let understood = platform(&facts(&told));
        assert_eq!(understood.soc, told.soc);
        assert_eq!(understood.version.text(), told.version.text());
        assert_eq!(understood.vector_cores, told.vector_cores);
        let unknown = platform(&[]);
        assert_eq!((unknown.soc, unknown.vector_cores), (Soc::unknown(), None));
    }
}

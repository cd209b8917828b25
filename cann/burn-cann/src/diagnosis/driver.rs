//! Checks of the driver: its files, and the device nodes that it makes.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use kernels_io::Limit;

use super::finding::{Area, Finding};

const HOME: &str = "usr/local/Ascend/driver";

/// The node through which devices are managed, which every program needs.
const MANAGER: &str = "dev/davinci_manager";

const IN_A_CONTAINER: &str = "in a container, pass the devices in (`--device /dev/davinci0 --device \
     /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc`) and mount the driver's folder";

pub(super) fn findings(root: &Path) -> Vec<Finding> {
    vec![version(root), library(root), nodes(root)]
}

fn version(root: &Path) -> Finding {
    let file = root.join(HOME).join("version.info");
    const LIMIT: Limit = Limit::mib("a driver's version.info", 1);
    let text = kernels_io::read_text(&file, LIMIT).ok();
    let version = text.as_deref().and_then(version_in);
    match (version, &text) {
        (Some(version), _) => Finding::good(Area::Driver, format!("version {version}")),
        (None, Some(_)) => {
            Finding::note(Area::Driver, format!("{} names no version", file.display()))
        }
        (None, None) => Finding::missing(
            Area::Driver,
            format!("no driver: {} can't be read", file.display()),
            "install the NPU's driver and firmware",
        ),
    }
}

/// Returns the version from the line `Version=24.1.rc2` of `version.info`.
fn version_in(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim();
        (key.trim().eq_ignore_ascii_case("version") && !value.is_empty()).then_some(value)
    })
}

fn library(root: &Path) -> Finding {
    let places = ["lib64/driver", "lib64", "lib64/common"]
        .map(|folder| root.join(HOME).join(folder).join("libascend_hal.so"));
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Finding::good(Area::Driver, place.display().to_string()),
        None => Finding::missing(
            Area::Driver,
            format!("no libascend_hal.so in {}", folders(&places)),
            "install the NPU's driver",
        ),
    }
}

fn folders(places: &[PathBuf]) -> String {
    let folders: Vec<_> = places
        .iter()
        .filter_map(|place| place.parent())
        .map(|folder| folder.display().to_string())
        .collect();
    folders.join(", ")
}

fn nodes(root: &Path) -> Finding {
    let manager = root.join(MANAGER);
    let mut devices = device_nodes(&root.join("dev"));
    if devices.is_empty() || !manager.exists() {
        let what = if devices.is_empty() {
            "no device node, such as /dev/davinci0".to_owned()
        } else {
            "no device node /dev/davinci_manager".to_owned()
        };
        return Finding::missing(
            Area::Driver,
            what,
            format!("load the driver (`npu-smi info` shows the NPUs then); {IN_A_CONTAINER}"),
        );
    }
    let count = devices.len();
    devices.push(manager);
    match devices
        .iter()
        .find_map(|node| Some((node, open(node).err()?)))
    {
        Some((node, error)) => Finding::missing(
            Area::Driver,
            format!("{} can't be opened: {error}", node.display()),
            "add the user to the driver's group (`usermod -aG HwHiAiUser USER`) and log in again",
        ),
        None => Finding::good(Area::Driver, format!("{count} device nodes")),
    }
}

/// Returns the nodes named `davinci` and a number. Other names are not devices.
fn device_nodes(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut nodes: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.strip_prefix("davinci"))
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .collect();
    nodes.sort();
    nodes
}

fn open(node: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(node)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn the_version_is_a_line_of_its_own() {
        assert_eq!(
            version_in("Version=24.1.rc2\nascendhal_version=7"),
            Some("24.1.rc2")
        );
        assert_eq!(
            version_in("package_version = x\nversion = 23.0"),
            Some("23.0")
        );
        assert_eq!(version_in("ascendhal_version=7\nVersion=\n"), None);
    }

    #[test]
    fn only_numbered_nodes_are_devices() {
        let root = std::env::temp_dir().join(format!("burn-cann-nodes-{}", std::process::id()));
        let dev = root.join("dev");
        fs::create_dir_all(&dev).unwrap();
        assert_eq!(nodes(&root).state, State::Missing);
        for name in [
            "davinci_manager",
            "davinci10",
            "davinci2",
            "davinci_x",
            "sda",
        ] {
            fs::write(dev.join(name), "").unwrap();
        }
        let found = nodes(&root);
        assert_eq!(found, Finding::good(Area::Driver, "2 device nodes"));
        fs::remove_file(dev.join("davinci_manager")).unwrap();
        let found = nodes(&root);
        assert!(found.text.contains("davinci_manager"), "{found:?}");
        fs::remove_dir_all(root).unwrap();
    }
}

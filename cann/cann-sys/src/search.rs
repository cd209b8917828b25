//! The search for CANN's libraries. It reads only folders and a list of vendors, and opens no library.

use kernels_io::Limit;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names the only folder to load from.
pub const LIB_DIR: &str = "CANN_LIB_DIR";

/// The environment variables of the search, read once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `CANN_LIB_DIR`: the only folder to load from.
    pub lib_dir: Option<PathBuf>,
    /// The toolkit's folders, from `set_env.sh`: `ASCEND_HOME_PATH`, `ASCEND_TOOLKIT_HOME`, the parent of
    /// `ASCEND_OPP_PATH`, and `ASCEND_AICPU_PATH`.
    pub homes: Vec<PathBuf>,
    /// `ASCEND_OPP_PATH`: CANN's operators, with those of other vendors under `vendors/`.
    pub opp: Option<PathBuf>,
    /// `ASCEND_CUSTOM_OPP_PATH`: folders of custom operators.
    pub custom_opp: Vec<PathBuf>,
    /// `HOME`, for a toolkit installed by a user.
    pub user_home: Option<PathBuf>,
}

impl Environment {
    /// Returns the environment of this process. An empty variable counts as not set.
    pub fn of_process() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Returns the environment in which `read` returns the values of variables.
    pub fn from_variables(read: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name: &str| {
            read(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let opp = path("ASCEND_OPP_PATH");
        let homes = [
            path("ASCEND_HOME_PATH"),
            path("ASCEND_TOOLKIT_HOME"),
            opp.as_deref().and_then(Path::parent).map(Path::to_path_buf),
            path("ASCEND_AICPU_PATH"),
        ];
        Self {
            lib_dir: path(LIB_DIR),
            homes: without_repeats(homes.into_iter().flatten()),
            custom_opp: read("ASCEND_CUSTOM_OPP_PATH")
                .map(|list| std::env::split_paths(&list).collect::<Vec<_>>())
                .unwrap_or_default()
                .into_iter()
                .filter(|folder| !folder.as_os_str().is_empty())
                .collect(),
            user_home: path("HOME"),
            opp,
        }
    }
}

/// The folders and libraries to search, in order, and functions to leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Folders that may hold `libascendcl.so`. The first that does holds the toolkit. An empty path stands for the
    /// loader's own search (`LD_LIBRARY_PATH`).
    pub(crate) folders: Vec<PathBuf>,
    /// Libraries of operators that come before the toolkit's own.
    pub(crate) custom: Vec<PathBuf>,
    /// Functions that count as missing.
    pub(crate) hidden: Vec<String>,
}

impl Search {
    /// Returns the search for an environment. It looks in these places, in order:
    ///
    /// 1. `CANN_LIB_DIR`. If it is set, no other folder and no custom operators are used.
    /// 2. `lib64` of the toolkit that `set_env.sh` has set.
    /// 3. The folders of the loader's own search, such as `LD_LIBRARY_PATH`.
    /// 4. The default folders under `/usr/local/Ascend` and `~/Ascend`: those of CANN 8.5 and later (`cann`), then
    ///    those of 8.1 to 8.3 (`ascend-toolkit/latest`), then any version beside them, newest first.
    pub fn new(environment: &Environment) -> Self {
        if let Some(folder) = &environment.lib_dir {
            return Self::in_folder(folder);
        }
        let set = environment.homes.iter().map(|home| home.join("lib64"));
        let user = environment
            .user_home
            .as_ref()
            .map(|home| home.join("Ascend"));
        let roots = [Some(PathBuf::from("/usr/local/Ascend")), user];
        let usual = roots
            .into_iter()
            .flatten()
            .flat_map(|root| default_folders(&root));
        Self {
            folders: without_repeats(set.chain([PathBuf::new()]).chain(usual)),
            custom: custom_libraries(environment),
            hidden: Vec::new(),
        }
    }

    /// Returns the search for the environment of this process.
    pub fn of_process() -> Self {
        Self::new(&Environment::of_process())
    }

    /// Returns the search in one folder only.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folders: vec![folder.into()],
            custom: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Makes a function count as missing, as in an older CANN, to test its replacement.
    pub fn hide(mut self, function: impl Into<String>) -> Self {
        self.hidden.push(function.into());
        self
    }

    /// Returns the folders in order. An empty path is the loader's own search.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Returns the libraries of custom operators, which are tried before the toolkit's, in order.
    pub fn custom_libraries(&self) -> &[PathBuf] {
        &self.custom
    }
}

/// Returns the libraries of a folder that hold operators, in the order of the search: those by area of CANN 8.5 and
/// later, the single library of earlier versions, and its parts.
pub(crate) fn operator_libraries(folder: &Path) -> Vec<PathBuf> {
    let mut by_area: Vec<PathBuf> = names_in(folder)
        .into_iter()
        .filter(|name| name.starts_with("libopapi_") && name.ends_with(".so"))
        .map(|name| folder.join(name))
        .collect();
    by_area.sort();
    let whole = [
        "libopapi.so",
        "libaclnn_ops_infer.so",
        "libaclnn_ops_train.so",
        "libaclnn_math.so",
        "libaclnn_rand.so",
    ];
    by_area
        .into_iter()
        .chain(whole.iter().map(|name| folder.join(name)))
        .collect()
}

/// Returns the libraries of custom operators. They come first, as in torch_npu: those of `ASCEND_CUSTOM_OPP_PATH`,
/// then those of the vendors in `config.ini`.
fn custom_libraries(environment: &Environment) -> Vec<PathBuf> {
    let library = |folder: PathBuf| folder.join("op_api/lib/libcust_opapi.so");
    let own = environment.custom_opp.iter().cloned();
    let vendors = environment.opp.iter().flat_map(|opp| {
        let vendors = opp.join("vendors");
        const LIMIT: Limit = Limit::mib("a list of vendors", 1);
        let config = kernels_io::read_text(&vendors.join("config.ini"), LIMIT).unwrap_or_default();
        load_priority(&config)
            .into_iter()
            .map(move |vendor| vendors.join(vendor))
    });
    without_repeats(own.chain(vendors).map(library))
}

/// Returns the vendors from the line `load_priority=a,b` of a `config.ini`.
fn load_priority(config: &str) -> Vec<String> {
    let line = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "load_priority").then_some(value)
    });
    let vendors = line.unwrap_or_default().split(',').map(str::trim);
    vendors
        .filter(|vendor| !vendor.is_empty())
        .map(str::to_owned)
        .collect()
}

fn default_folders(root: &Path) -> Vec<PathBuf> {
    let toolkit = root.join("ascend-toolkit");
    let mut homes = vec![root.join("cann"), toolkit.join("latest")];
    homes.extend(versions_in(root, "cann-"));
    homes.extend(versions_in(&toolkit, ""));
    homes.into_iter().map(|home| home.join("lib64")).collect()
}

/// Returns the folders named `<prefix><version>`, newest first.
fn versions_in(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(Vec<u32>, String)> = names_in(folder)
        .into_iter()
        .filter_map(|name| Some((version_of(name.strip_prefix(prefix)?)?, name)))
        .collect();
    found.sort_by(|left, right| right.cmp(left));
    found
        .into_iter()
        .map(|(_, name)| folder.join(name))
        .collect()
}

/// Returns a version such as `8.1.RC1` as comparable numbers. A release comes after its candidates.
fn version_of(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut candidate = u32::MAX;
    for part in text.split(['.', '-']) {
        if let Ok(number) = part.parse() {
            numbers.push(number);
        } else if let Some(number) = part.strip_prefix("RC") {
            candidate = number.parse().ok()?;
        } else if let Some(number) = part.strip_prefix("beta") {
            candidate = number.parse().unwrap_or(0);
        } else {
            return None;
        }
    }
    (!numbers.is_empty()).then(|| {
        numbers.resize(3, 0);
        numbers.push(candidate);
        numbers
    })
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn without_repeats(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::from_variables(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    fn texts(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn toolkit_of_the_environment_comes_before_the_loader_and_the_default_places() {
        let search = Search::new(&environment(&[
            ("ASCEND_HOME_PATH", "/opt/cann"),
            ("ASCEND_TOOLKIT_HOME", "/opt/cann"),
            ("ASCEND_OPP_PATH", "/srv/toolkit/opp"),
            ("HOME", "/home/user"),
        ]));
        assert_eq!(
            texts(search.folders()),
            [
                "/opt/cann/lib64",
                "/srv/toolkit/lib64",
                "",
                "/usr/local/Ascend/cann/lib64",
                "/usr/local/Ascend/ascend-toolkit/latest/lib64",
                "/home/user/Ascend/cann/lib64",
                "/home/user/Ascend/ascend-toolkit/latest/lib64",
            ]
        );
    }

    #[test]
    fn lib_dir_excludes_everything_else() {
        let search = Search::new(&environment(&[
            (LIB_DIR, "/emulator"),
            ("ASCEND_HOME_PATH", "/opt/cann"),
            ("ASCEND_CUSTOM_OPP_PATH", "/custom"),
        ]));
        assert_eq!(search, Search::in_folder("/emulator"));
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        assert_eq!(
            environment(&[(LIB_DIR, ""), ("ASCEND_HOME_PATH", "")])
                .homes
                .len(),
            0
        );
    }

    #[test]
    fn custom_operators_come_in_the_order_of_the_environment_then_of_the_vendors() {
        let folder = std::env::temp_dir().join(format!("cann-sys-vendors-{}", std::process::id()));
        let vendors = folder.join("opp/vendors");
        fs::create_dir_all(&vendors).unwrap();
        fs::write(
            vendors.join("config.ini"),
            "[vendors]\nload_priority = first, second\n",
        )
        .unwrap();
        let opp = folder.join("opp");
        let search = Search::new(&environment(&[
            ("ASCEND_CUSTOM_OPP_PATH", "/a:/b:"),
            ("ASCEND_OPP_PATH", opp.to_str().unwrap()),
        ]));
        let tail = "op_api/lib/libcust_opapi.so";
        let expected: Vec<PathBuf> = [
            "/a".into(),
            "/b".into(),
            vendors.join("first"),
            vendors.join("second"),
        ]
        .map(|folder: PathBuf| folder.join(tail))
        .into();
        assert_eq!(search.custom_libraries(), expected);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn operators_by_area_come_before_the_umbrella() {
        let folder = std::env::temp_dir().join(format!("cann-sys-opapi-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in [
            "libopapi_transformer.so",
            "libopapi_nn.so",
            "libother.so",
            "libopapi_x.a",
        ] {
            fs::write(folder.join(name), "").unwrap();
        }
        let found = operator_libraries(&folder);
        let names: Vec<_> = found
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            names[..3],
            ["libopapi_nn.so", "libopapi_transformer.so", "libopapi.so"]
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn versions_are_ordered_as_versions() {
        let folder = std::env::temp_dir().join(format!("cann-sys-versions-{}", std::process::id()));
        for name in [
            "8.1.RC1",
            "8.3.RC2",
            "8.3.0",
            "10.0.0",
            "8.3.RC10",
            "latest",
            "9.2.0-beta.1",
        ] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let found = versions_in(&folder, "");
        let names: Vec<_> = found
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        let expected = [
            "10.0.0",
            "9.2.0-beta.1",
            "8.3.0",
            "8.3.RC10",
            "8.3.RC2",
            "8.1.RC1",
        ];
        assert_eq!(names, expected);
        fs::remove_dir_all(folder).unwrap();
    }
}

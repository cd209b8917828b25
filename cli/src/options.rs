//! Options of a command from a TOML file: `--config FILE`, or the file in a run folder with `--resume DIR`.
//!
//! A key of the file is the name of an option, without its dashes. An option on the command line takes precedence.

use crate::output;
use crate::training::folder::CONFIG;
use anyhow::{Context, anyhow, bail};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use kernels_io::{Limit, escape, escape_lines, escape_path};
use serde::Serializer;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Value;

/// The option that names a file of options.
const FILE: &str = "config";
/// The option that names a run folder.
const RUN: &str = "resume";

/// Parses the command line, and the file of options that it names. Wrong usage ends the program.
pub fn parse<P: Parser>() -> P {
    let mut line = with_negative_numbers(std::env::args_os());
    let command = P::command();
    let parsed = command.clone().try_get_matches_from(&line);
    let parsed = parsed.and_then(|matches| {
        let options = from_file(&command, &matches).map_err(|error| {
            let mut command = command.clone();
            command.error(ErrorKind::InvalidValue, output::chain(&error))
        })?;
        line.extend(options);
        P::try_parse_from(&line)
    });
    parsed.unwrap_or_else(|error| exit(&error, &line))
}

/// Joins negative numbers with the options before them, so that the parser of each option says which it allows. Without
/// this, `--steps -1` is an unknown option `-1`.
fn with_negative_numbers(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut is_own = true;
    for argument in line {
        let text = argument.to_string_lossy();
        // What follows is the line of another program.
        is_own &= text != "--";
        let is_negative = text.starts_with('-') && text.parse::<f64>().is_ok();
        let before = joined.last_mut().filter(|before| {
            let before = before.to_string_lossy();
            is_own && is_negative && before.starts_with("--") && !before.contains('=')
        });
        match before {
            Some(before) => {
                before.push("=");
                before.push(&argument);
            }
            None => joined.push(argument),
        }
    }
    joined
}

/// Ends the program with a message of wrong usage, or with the help. The message quotes the line, whose values may be those
/// of a file: if they hold control characters, it is escaped, and has none of clap's colours.
fn exit(error: &clap::Error, line: &[OsString]) -> ! {
    let is_plain = |text: &OsString| matches!(escape(&text.to_string_lossy()), Cow::Borrowed(_));
    if line.iter().all(is_plain) || !error.use_stderr() {
        error.exit()
    }
    let text = error.render().to_string();
    output::error(text.strip_prefix("error: ").unwrap_or(&text));
    std::process::exit(error.exit_code())
}

/// Returns the options of the named file that the command line does not have.
fn from_file(command: &Command, matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let Some((name, given)) = matches.subcommand() else {
        return Ok(Vec::new());
    };
    let (Some(path), Some(command)) = (named(given), command.find_subcommand(name)) else {
        return Ok(Vec::new());
    };
    let shown = escape_path(&path);
    let text = kernels_io::read_text(&path, Limit::mib("a file of options", 1))?;
    let table: toml::Table = toml::from_str(&text)
        .map_err(|error| anyhow!("{}", escape_lines(error.to_string().trim_end())))
        .with_context(|| shown.clone())?;
    let mut options = Vec::new();
    for (key, value) in &table {
        let known = command.get_arguments().find(|arg| is_option(arg, key));
        let arg = known.with_context(|| {
            let options = command.get_arguments().filter_map(Arg::get_long);
            let known: Vec<&str> = options.filter(|name| ![FILE, RUN].contains(name)).collect();
            format!(
                "{shown}: unknown option `{}` of `kernels {name}`; options are {}",
                escape(key),
                known.join(", ")
            )
        })?;
        if given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        add(&mut options, arg, key, value).with_context(|| shown.clone())?;
    }
    Ok(options)
}

/// Returns the file of options that a command line names.
fn named(given: &ArgMatches) -> Option<PathBuf> {
    let path = |id| given.try_get_one::<PathBuf>(id).ok().flatten();
    let of_run = |folder: &PathBuf| Some(folder.join(CONFIG)).filter(|file| file.exists());
    path(FILE).cloned().or_else(|| path(RUN).and_then(of_run))
}

fn is_option(arg: &Arg, key: &str) -> bool {
    arg.get_long() == Some(key) && ![FILE, RUN].contains(&key)
}

fn add(options: &mut Vec<OsString>, arg: &Arg, key: &str, value: &Value) -> anyhow::Result<()> {
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    match (value, is_switch) {
        (Value::Boolean(true), true) => options.push(format!("--{key}").into()),
        (Value::Boolean(false), true) => {}
        (_, true) => bail!("`{key}` must be true or false"),
        (Value::Array(values), false) if matches!(arg.get_action(), ArgAction::Append) => {
            for value in values {
                add(options, arg, key, value)?;
            }
        }
        (value, false) => {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                _ => bail!("`{key}` must be a text or a number"),
            };
            options.push(format!("--{key}={text}").into());
        }
    }
    Ok(())
}

/// Reads a whole number, 0 or more.
///
/// # Errors
/// Returns what was expected.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let number = text.parse();
    number.map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// Serialises a value by its text.
///
/// # Errors
/// Returns the serialiser's error.
pub fn as_text<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

/// Serialises a value that is there by its text.
///
/// # Errors
/// Returns the serialiser's error.
#[cfg(feature = "text")]
pub fn shown<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Serialises a number that TOML may lack, which then is a text.
///
/// # Errors
/// Returns the serialiser's error.
pub fn as_number<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    match i64::try_from(*number) {
        Ok(number) => to.serialize_i64(number),
        Err(_) => to.collect_str(number),
    }
}

/// Serialises a path that means the same in every working folder.
///
/// # Errors
/// Returns an error if the path is not Unicode.
pub fn as_absolute<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.serialize_str(&absolute(path).map_err(serde::ser::Error::custom)?),
        None => to.serialize_none(),
    }
}

/// Serialises paths that mean the same in every working folder.
///
/// # Errors
/// Returns an error if a path is not Unicode.
#[cfg(feature = "text")]
pub fn all_absolute<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    let texts: anyhow::Result<Vec<String>> = paths.iter().map(|path| absolute(path)).collect();
    to.collect_seq(texts.map_err(serde::ser::Error::custom)?)
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let absolute = std::path::absolute(path)?;
    let text = absolute.to_str().map(str::to_owned);
    text.with_context(|| format!("the path {} is not valid Unicode", escape_path(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Parser)]
    enum Cli {
        Train {
            #[arg(long)]
            config: Option<PathBuf>,
            #[arg(long, default_value_t = 1)]
            steps: usize,
            #[arg(long)]
            rate: Option<f64>,
            #[arg(long)]
            data: Vec<String>,
            #[arg(long)]
            quiet: bool,
        },
    }

    fn expand(text: &str, line: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options.toml");
        std::fs::write(&file, text).unwrap();
        let config = format!("--config={}", file.display());
        let line = [&["kernels", "train", &config], line].concat();
        let command = <Cli as clap::CommandFactory>::command();
        let matches = command.clone().get_matches_from(line);
        let options = from_file(&command, &matches).map_err(|error| format!("{error:#}"))?;
        let texts = options.into_iter().map(|text| text.into_string().unwrap());
        Ok(texts.collect())
    }

    #[test]
    fn options_take_negative_numbers() {
        let parse = |line: &str| {
            let line = with_negative_numbers(line.split(' ').map(OsString::from));
            Cli::try_parse_from(line).map_err(|error| error.to_string())
        };
        let said = parse("kernels train --steps -1").unwrap_err();
        assert!(
            said.contains("'--steps <STEPS>'") && said.contains("'-1'"),
            "{said}"
        );
        let Cli::Train { rate, .. } = parse("kernels train --rate -1e-3 --steps 2").unwrap();
        assert_eq!(rate, Some(-1e-3));
        assert!(parse("kernels train --rate -x").is_err());
        let line = ["k", "-1", "--a=1", "-1", "--b", "-x", "--", "--c", "-1"];
        let line = line.map(OsString::from);
        assert_eq!(with_negative_numbers(line.clone().into_iter()), line);
        assert_eq!(whole::<u64>("7"), Ok(7));
        assert!(whole::<u64>("-1").unwrap_err().contains("0 or more"));
    }

    #[test]
    fn keys_are_options_and_the_command_line_comes_first() {
        let text = "steps = 5\nrate = 0.25\ndata = [\"a\", \"b\"]\nquiet = true\n";
        let options = expand(text, &[]).unwrap();
        let expected = [
            "--data=a",
            "--data=b",
            "--quiet",
            "--rate=0.25",
            "--steps=5",
        ];
        let mut sorted = options.clone();
        sorted.sort();
        assert_eq!(sorted, expected);
        let options = expand(text, &["--steps=7", "--data=c"]).unwrap();
        assert!(
            options
                .iter()
                .all(|text| !text.contains("steps") && !text.contains("data"))
        );
        assert_eq!(expand("quiet = false", &[]).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_option_is_told_with_the_file() {
        for (text, expected) in [
            (
                "step = 5",
                "unknown option `step` of `kernels train`; options are steps, rate, data, quiet",
            ),
            ("config = \"x\"", "unknown option `config`"),
            ("quiet = 1", "`quiet` must be true or false"),
            ("steps = { a = 1 }", "`steps` must be a text or a number"),
            ("steps = [1]", "`steps` must be a text or a number"),
            ("steps = ", "options.toml"),
        ] {
            let error = expand(text, &[]).unwrap_err();
            assert!(
                error.contains(expected) && error.contains("options.toml"),
                "{error}"
            );
        }
    }
}

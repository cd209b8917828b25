//! A file of points that grows while a run trains.
//!
//! If a point can't be written, training goes on; the whole file is written again as soon as that is possible.

use super::events;
use super::metrics::{self, Point};
use crate::output;
use anyhow::Context;
use kernels_io::escape_path;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The time between two attempts to write a file again that could not be written.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The form of a file.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// Lines of JSON.
    Lines,
    /// Events for TensorBoard, of a run that began so many seconds after 1970.
    Events(f64),
}

impl Format {
    /// Returns the format of events of a run that has these points now.
    pub fn events(points: &[Point]) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = points.last().map_or(0.0, |point| point.seconds);
        Self::Events(now.map_or(0.0, |now| now.as_secs_f64()) - seconds)
    }

    fn all(self, points: &[Point]) -> Vec<u8> {
        match self {
            Self::Lines => metrics::lines(points),
            Self::Events(began) => {
                let each = points.iter().flat_map(|point| events::of(point, began));
                events::head(began).into_iter().chain(each).collect()
            }
        }
    }

    fn one(self, point: &Point) -> Vec<u8> {
        match self {
            Self::Lines => metrics::line(point),
            Self::Events(began) => events::of(point, began),
        }
    }
}

/// A file of points.
pub struct Log {
    path: PathBuf,
    format: Format,
    /// The open file, or `None` if it lacks points.
    file: Option<File>,
    tried: Instant,
}

impl Log {
    /// Writes the points so far, and appends from now on.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn create(path: &Path, format: Format, points: &[Point]) -> anyhow::Result<Self> {
        let mut log = Self {
            path: path.to_owned(),
            format,
            file: None,
            tried: Instant::now(),
        };
        log.rewrite(points)?;
        Ok(log)
    }

    /// Writes the last of all points. If it can't be written, this is told once.
    pub fn record(&mut self, points: &[Point]) {
        let Some(point) = points.last() else { return };
        let lacking = match &mut self.file {
            Some(file) => append(file, &self.path, &self.format.one(point)).err(),
            None if self.tried.elapsed() < AGAIN_AFTER => return,
            None => return self.try_again(points),
        };
        if let Some(error) = lacking {
            let shown = escape_path(&self.path);
            output::note(format_args!(
                "warning: cannot write {shown}: {error}; training goes on, and the file is written again when it can be"
            ));
            self.file = None;
            self.tried = Instant::now();
        }
    }

    /// Writes the points that the file lacks.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub fn complete(&mut self, points: &[Point]) -> anyhow::Result<()> {
        match &self.file {
            Some(file) if is_there(file, &self.path) => Ok(()),
            _ => self.rewrite(points),
        }
    }

    fn try_again(&mut self, points: &[Point]) {
        self.tried = Instant::now();
        if self.rewrite(points).is_ok() {
            let shown = escape_path(&self.path);
            output::note(format_args!("{shown} is written again, with all points"));
        }
    }

    fn rewrite(&mut self, points: &[Point]) -> anyhow::Result<()> {
        self.file = None;
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).context("cannot create the run folder")?;
        }
        output::write_file(&self.path, &self.format.all(points))?;
        let file = OpenOptions::new().append(true).open(&self.path);
        let shown = || format!("cannot write {}", escape_path(&self.path));
        self.file = Some(file.with_context(shown)?);
        Ok(())
    }
}

fn append(file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file that was removed can still be written, and is lost with the process.
    if !is_there(file, path) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it was removed"));
    }
    file.write_all(bytes)
}

/// Returns `true` if the path still leads to the open file.
fn is_there(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let identity = |facts: std::fs::Metadata| (facts.dev(), facts.ino());
        let there = std::fs::metadata(path).map(identity).ok();
        there.is_some() && there == file.metadata().map(identity).ok()
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

//! The rewards of completions: by a program, or by a regular expression.

use crate::bisect::interrupt::end;
use anyhow::{Context, anyhow, bail};
use kernels_io::{escape, shorten};
use regex::Regex;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The field of a completion's text.
pub const COMPLETION: &str = "completion";

/// The source of rewards.
pub enum Judge {
    /// 1 for a text in which it matches, and 0 for others.
    Regex(Regex),
    /// A command, with the time that it has for each number. It begins with the first completion.
    Command(String, Duration),
    /// The program of a command.
    Program(Program),
}

impl Judge {
    /// Reads a regular expression.
    ///
    /// # Errors
    /// Returns an error if the text is not a regular expression.
    pub fn of_regex(text: &str) -> anyhow::Result<Self> {
        let regex = Regex::new(text);
        let wrong = |error: regex::Error| {
            anyhow!(
                "--reward-regex is not a regular expression: {}",
                escape(&error.to_string())
            )
        };
        regex.map(Self::Regex).map_err(wrong)
    }

    /// Returns the reward of each completion: a record with its text.
    ///
    /// # Errors
    /// Returns an error if the program ends, takes too long, or prints something else than a number for each.
    pub fn rewards(&mut self, completions: &[Map<String, Value>]) -> anyhow::Result<Vec<f64>> {
        if let Self::Command(command, timeout) = self {
            *self = Self::Program(Program::start(command, *timeout)?);
        }
        match self {
            Self::Program(program) => program.rewards(completions),
            Self::Regex(regex) => {
                let text = |record: &Map<String, Value>| {
                    let text = record.get(COMPLETION).and_then(Value::as_str);
                    f64::from(u8::from(regex.is_match(text.unwrap_or_default())))
                };
                Ok(completions.iter().map(text).collect())
            }
            Self::Command(..) => unreachable!("its program was started"),
        }
    }
}

/// A running program that judges completions.
pub struct Program {
    name: String,
    child: Child,
    /// The lines for its standard input. `None` once it is closed.
    requests: Option<Sender<Vec<u8>>>,
    lines: Receiver<Heard>,
    timeout: Duration,
}

/// The output of a program.
enum Heard {
    Line(String),
    /// More bytes than a number has.
    Flood,
    End,
}

/// The largest number of bytes of a line with a number.
const LONGEST: u64 = 1024;

/// The number of lines that wait to be read. A program that prints more waits itself.
const WAITING: usize = 1024;

/// The time to wait for lines beyond the requested rewards.
const SETTLED: Duration = Duration::from_millis(20);

/// The time that a program has to end after its input ended.
const GRACE: Duration = Duration::from_millis(500);

impl Program {
    fn start(command: &str, timeout: Duration) -> anyhow::Result<Self> {
        let name = format!("the reward program `{}`", escape(&shorten(command, 200)));
        let mut shell = shell(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell
            .spawn()
            .with_context(|| format!("{name} can't be started"))?;
        let (requests, received) = channel();
        let (sender, lines) = sync_channel(WAITING);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.context("the program has both pipes")?;
        thread::spawn(move || write(stdin, &received));
        thread::spawn(move || read(stdout, &sender));
        Ok(Self {
            name,
            child,
            requests: Some(requests),
            lines,
            timeout,
        })
    }

    fn rewards(&mut self, completions: &[Map<String, Value>]) -> anyhow::Result<Vec<f64>> {
        self.refuse_further(Duration::ZERO)?;
        let mut text = Vec::new();
        for record in completions {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        // A program that ended is found by its missing answers.
        let _ = self.requests.as_ref().map(|requests| requests.send(text));
        let count = completions.len();
        let numbers = (0..count).map(|at| self.number(at, count));
        let numbers = numbers.collect::<anyhow::Result<Vec<f64>>>()?;
        // After the last step, nothing else would find them.
        self.refuse_further(SETTLED)?;
        Ok(numbers)
    }

    fn number(&mut self, at: usize, count: usize) -> anyhow::Result<f64> {
        let name = self.name.clone();
        let line = match self.lines.recv_timeout(self.timeout) {
            Ok(Heard::Line(line)) => line,
            Ok(Heard::Flood) => bail!(
                "{name} prints more than {LONGEST} bytes in a line, where a number was expected"
            ),
            Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => {
                bail!(
                    "{name} ended{} after {at} of {count} numbers",
                    self.status()
                )
            }
            Err(RecvTimeoutError::Timeout) => bail!(
                "{name} printed {at} of {count} numbers and then none for {} s; --reward-timeout gives it more time, and a \
                 program whose output is buffered has to flush it",
                self.timeout.as_secs_f64()
            ),
        };
        // Deviations of rewards square them.
        let number = line
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| (*number as f32).is_finite());
        number.with_context(|| {
            let shown = escape(&shorten(line.trim(), 60)).into_owned();
            format!(
                "{name} printed `{shown}` for completion {} of {count}, which is not a number within the range of f32",
                at + 1
            )
        })
    }

    /// Waits for a further line, and refuses it: it would be taken for the reward of another completion.
    fn refuse_further(&mut self, wait: Duration) -> anyhow::Result<()> {
        let name = &self.name;
        match self.lines.recv_timeout(wait) {
            Ok(Heard::Line(line)) => {
                let shown = escape(&shorten(line.trim(), 60)).into_owned();
                bail!("{name} printed more lines than there are completions: `{shown}`")
            }
            Ok(Heard::Flood) => bail!("{name} printed more than a number for each completion"),
            // Its status is told when it is asked for more.
            Ok(Heard::End) | Err(_) => Ok(()),
        }
    }

    /// Returns how the program ended, if it did.
    fn status(&mut self) -> String {
        match self.waited() {
            Some(status) => format!(" ({status})"),
            None => " its output".to_owned(),
        }
    }

    /// Waits a little for the end of the program.
    fn waited(&mut self) -> Option<std::process::ExitStatus> {
        const POLL: Duration = Duration::from_millis(5);
        let since = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if since.elapsed() < GRACE => thread::sleep(POLL),
                _ => return None,
            }
        }
    }
}

/// Ends the program and its children.
impl Drop for Program {
    fn drop(&mut self) {
        self.requests = None;
        self.waited();
        let _ = end(&mut self.child);
    }
}

/// Returns a command of the system's shell, in a group of processes of its own.
fn shell(command: &str) -> Command {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).process_group(0);
        shell
    }
    #[cfg(not(unix))]
    {
        let mut shell = Command::new("cmd");
        shell.arg("/C").arg(command);
        shell
    }
}

/// Writes received bytes until the program no longer reads or the sender is gone.
fn write(mut stdin: ChildStdin, received: &Receiver<Vec<u8>>) {
    for text in received {
        if stdin.write_all(&text).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Sends the lines that a program prints.
fn read(stdout: ChildStdout, lines: &SyncSender<Heard>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = stdout
            .by_ref()
            .take(LONGEST + 1)
            .read_until(b'\n', &mut line);
        let heard = match read {
            Ok(0) | Err(_) => Heard::End,
            Ok(count) if count as u64 > LONGEST => Heard::Flood,
            Ok(_) => Heard::Line(String::from_utf8_lossy(&line).into_owned()),
        };
        let goes_on = matches!(heard, Heard::Line(_));
        if lines.send(heard).is_err() || !goes_on {
            return;
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn completions(texts: &[&str]) -> Vec<Map<String, Value>> {
        let record = |text: &&str| Map::from_iter([(COMPLETION.to_owned(), Value::from(*text))]);
        texts.iter().map(record).collect()
    }

    fn program(command: &str, milliseconds: u64) -> Judge {
        Judge::Command(command.to_owned(), Duration::from_millis(milliseconds))
    }

    #[test]
    fn rewards_come_one_a_line() {
        let mut judge = program("while read -r line; do echo \" ${#line}.5\"; done", 10_000);
        let found = judge.rewards(&completions(&["a", "bcd"])).unwrap();
        assert_eq!(found, [18.5, 20.5]);
        assert_eq!(judge.rewards(&completions(&["ab"])).unwrap(), [19.5]);
        let mut judge = Judge::of_regex("^b+$").unwrap();
        assert_eq!(
            judge.rewards(&completions(&["a", "bb"])).unwrap(),
            [0.0, 1.0]
        );
        assert!(Judge::of_regex("(").is_err());
    }

    #[test]
    fn what_is_wrong_with_a_program_is_told() {
        for (command, milliseconds, expected) in [
            (
                "exit 3",
                10_000,
                "ended (exit status: 3) after 0 of 2 numbers",
            ),
            ("read -r line; echo 1", 10_000, "after 1 of 2 numbers"),
            (
                "sleep 60",
                200,
                "printed 0 of 2 numbers and then none for 0.2 s",
            ),
            (
                "cat",
                10_000,
                "for completion 1 of 2, which is not a number",
            ),
            (
                "echo nan; cat >/dev/null",
                10_000,
                "`nan` for completion 1 of 2",
            ),
            (
                "echo -1e300; cat >/dev/null",
                10_000,
                "`-1e300` for completion 1 of 2, which is not a number within the range of f32",
            ),
            (
                "head -c 5000 /dev/zero; cat >/dev/null",
                10_000,
                "more than 1024 bytes",
            ),
            (
                "no-such-program-at-all 2>/dev/null",
                10_000,
                "(exit status: 127)",
            ),
        ] {
            let said = program(command, milliseconds).rewards(&completions(&["a", "b"]));
            let said = format!("{:#}", said.unwrap_err());
            assert!(said.contains(expected), "{command}: {said}");
        }
        let said = program("yes 1", 10_000).rewards(&completions(&["a"]));
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains("more lines than there are completions"),
            "{said}"
        );
        let mut judge = program("read -r l; echo 1; echo 2; cat >/dev/null", 10_000);
        let first = judge.rewards(&completions(&["a"]));
        // The line can come before or after the number is read.
        thread::sleep(Duration::from_millis(200));
        let said = match first {
            Ok(_) => judge.rewards(&completions(&["b"])).unwrap_err(),
            Err(said) => said,
        };
        assert!(
            said.to_string()
                .contains("more lines than there are completions: `2`"),
            "{said}"
        );
    }

    #[test]
    fn a_program_ends_with_its_judge() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let command = format!(
            "echo $$ >{}; echo 1; while :; do sleep 0.05; done",
            file.display()
        );
        let mut judge = program(&command, 10_000);
        judge.rewards(&completions(&["a"])).unwrap();
        let pid = std::fs::read_to_string(&file).unwrap();
        let is_there = || std::path::Path::new("/proc").join(pid.trim()).exists();
        assert!(is_there() || !std::path::Path::new("/proc/self").exists());
        drop(judge);
        assert!(!is_there());
    }
}

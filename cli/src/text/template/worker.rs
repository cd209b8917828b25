//! Processes that render templates.
//!
//! A template comes with a checkpoint and can be made to harm: values that hold themselves, texts that double, and sources
//! that nest too deeply would end the program, or run for ever. So it renders in a process of the same program, which has
//! limits of memory and time, and which Ctrl-C ends.

use super::engine::{ENDLESS, Engine, Failure, Setup};
use crate::text::Date;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The argument that makes a process of the program a worker.
const ARGUMENT: &str = "render-chat-templates";

/// The memory of a worker, in GiB.
const MEMORY: u64 = 1;

/// The stack of a worker's rendering, in bytes.
const STACK: usize = 64 << 20;

/// The time that a rendering may take.
const TIME: Duration = Duration::from_secs(10);

/// The exit code of a worker that panicked.
const PANICKED: i32 = 101;

/// True in a program that can be its own worker.
static ISOLATES: AtomicBool = AtomicBool::new(false);

/// Set by Ctrl-C, which ends a rendering then.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Has chat templates render in processes of this program from now on, which have limits of memory and time. `main` calls
/// it first. In such a process, it does not return.
pub fn isolate_templates() {
    match std::env::args_os().nth(1) {
        Some(argument) if argument == ARGUMENT => serve(),
        _ => ISOLATES.store(true, Ordering::Relaxed),
    }
}

/// Ends the rendering of a template in another process whenever the flag is set. The first flag counts.
pub fn interrupt_templates_on(flag: &Arc<AtomicBool>) {
    INTERRUPTED.get_or_init(|| Arc::clone(flag));
}

/// A template that renders: in workers, or here, in a program that can't be its own worker.
#[derive(Debug)]
pub(super) enum Renderer {
    Here(Box<Engine>),
    Apart(Box<Workers>),
}

/// The end of a rendering without a text.
pub(super) enum Stop {
    /// The template fails.
    Failed(Failure),
    /// Ctrl-C was pressed.
    Interrupted,
}

impl Renderer {
    /// Reads a template.
    pub(super) fn new(setup: Setup) -> Result<Self, Stop> {
        if !ISOLATES.load(Ordering::Relaxed) {
            return Ok(Self::Here(Box::new(Engine::new(setup)?)));
        }
        let workers = Workers {
            setup,
            idle: Mutex::default(),
            broken: OnceLock::new(),
        };
        // A worker answers its template too.
        let first = workers.start()?;
        lock(&workers.idle).push(first);
        Ok(Self::Apart(Box::new(workers)))
    }

    /// Has the template write this date, in place of today's.
    pub(super) fn fix_date(&mut self, date: Date) {
        match self {
            Self::Here(engine) => engine.fix_date(date),
            Self::Apart(workers) => {
                workers.setup.date = Some(date.to_string());
                lock(&workers.idle).clear();
            }
        }
    }

    /// Renders values, a JSON object in one line.
    pub(super) fn render(&self, values: &str) -> Result<String, Stop> {
        match self {
            Self::Here(engine) => Ok(engine.render(values)?),
            Self::Apart(workers) => workers.render(values),
        }
    }
}

/// The workers of a template. Each thread that renders takes one.
#[derive(Debug)]
pub(super) struct Workers {
    setup: Setup,
    idle: Mutex<Vec<Worker>>,
    /// The reason why a worker died or worked too long. What has happened once is not tried again.
    broken: OnceLock<Failure>,
}

impl Workers {
    fn start(&self) -> Result<Worker, Stop> {
        let failed =
            |error: io::Error| Failure::new(format!("no process can be started for it: {error}"));
        let mut worker = Worker::start().map_err(failed)?;
        let setup = serde_json::to_string(&self.setup).map_err(|error| failed(error.into()))?;
        worker.ask(&setup)?;
        Ok(worker)
    }

    fn render(&self, values: &str) -> Result<String, Stop> {
        if let Some(failure) = self.broken.get() {
            return Err(Stop::Failed(failure.clone()));
        }
        let idle = lock(&self.idle).pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => self.start()?,
        };
        let rendered = worker.ask(values);
        if let Err(Stop::Failed(failure)) = &rendered
            && (worker.ended || failure.problem == ENDLESS)
        {
            let _ = self.broken.set(failure.clone());
        }
        if !worker.ended {
            lock(&self.idle).push(worker);
        }
        rendered
    }
}

fn lock(idle: &Mutex<Vec<Worker>>) -> std::sync::MutexGuard<'_, Vec<Worker>> {
    idle.lock().expect("no holder panics")
}

/// A process that renders one template.
#[derive(Debug)]
struct Worker {
    process: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
    ended: bool,
}

impl Worker {
    fn start() -> io::Result<Self> {
        // The file of the program may be replaced while it runs; this link stays.
        let link = Path::new("/proc/self/exe");
        let program = match link.exists() {
            true => link.to_path_buf(),
            false => std::env::current_exe()?,
        };
        let mut command = Command::new(program);
        command.arg(ARGUMENT).stderr(Stdio::null());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for the program, which ends the worker if need be.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.spawn()?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (to, from) = mpsc::sync_channel(0);
        thread::Builder::new().spawn(move || forward(BufReader::new(answers), &to))?;
        Ok(Self {
            process,
            questions,
            answers: from,
            ended: false,
        })
    }

    /// Sends a line and waits for the answer. A worker that gives none in time is ended.
    fn ask(&mut self, line: &str) -> Result<String, Stop> {
        let asked = Instant::now();
        // A worker that died does not read; why, its end tells.
        let _ = self.questions.write_all(line.as_bytes());
        let _ = self.questions.write_all(b"\n");
        loop {
            let died = match self.answers.recv_timeout(Duration::from_millis(20)) {
                Ok(answer) => match serde_json::from_str::<Result<String, Failure>>(&answer) {
                    Ok(answer) => return Ok(answer?),
                    Err(_) => true,
                },
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            let interrupted = INTERRUPTED.get();
            if interrupted.is_some_and(|flag| flag.load(Ordering::SeqCst)) {
                let _ = self.end();
                return Err(Stop::Interrupted);
            }
            if !died && asked.elapsed() < TIME {
                continue;
            }
            let end = self.end();
            let problem = match end.and_then(|end| end.code()) {
                _ if !died => format!("it does not end within {} s", TIME.as_secs()),
                Some(PANICKED) => "the engine panics".to_owned(),
                _ => format!(
                    "it takes more than {MEMORY} GiB of memory, or what it makes or holds is nested too deeply"
                ),
            };
            return Err(Stop::Failed(Failure::new(problem)));
        }
    }

    fn end(&mut self) -> Option<ExitStatus> {
        self.ended = true;
        // This fails only if it has ended already.
        let _ = self.process.kill();
        self.process.wait().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end();
        }
    }
}

/// Passes lines on until one of the two sides ends.
fn forward(mut from: impl BufRead, to: &SyncSender<String>) {
    let mut line = String::new();
    while from.read_line(&mut line).is_ok_and(|length| length > 0) {
        if to.send(std::mem::take(&mut line)).is_err() {
            return;
        }
    }
}

/// Renders as a worker, until the program that started it closes the pipe or ends.
fn serve() -> ! {
    limit();
    std::panic::set_hook(Box::new(|_| std::process::exit(PANICKED)));
    let (to, from) = mpsc::sync_channel(0);
    let rendering = thread::Builder::new().stack_size(STACK);
    let started = rendering.spawn(move || {
        let done = answer(&from);
        std::process::exit(i32::from(done.is_err()));
    });
    // This thread notices the end of the pipe while the other renders.
    if started.is_ok() {
        forward(io::stdin().lock(), &to);
    }
    std::process::exit(i32::from(started.is_err()))
}

/// Answers the first line, a setup, and all others, values.
fn answer(lines: &Receiver<String>) -> io::Result<()> {
    let mut engine = Err(Failure::new("no template was set up"));
    for (at, line) in lines.iter().enumerate() {
        let answer = match at {
            0 => {
                engine = Engine::new(serde_json::from_str(&line)?);
                engine
                    .as_ref()
                    .map(|_| String::new())
                    .map_err(Failure::clone)
            }
            _ => engine
                .as_ref()
                .map_err(Failure::clone)
                .and_then(|engine| engine.render(&line)),
        };
        let mut out = BufWriter::new(io::stdout().lock());
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// Limits the memory of this process, and has it leave no image of its memory behind.
fn limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let to = |bytes: u64| Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        // Where the system knows no such limit, time is limited and so is the template's work.
        let _ = setrlimit(Resource::Data, to(MEMORY << 30));
        let _ = setrlimit(Resource::Core, to(0));
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

//! Tests of groups whose ranks are in several processes. Each process runs the test that starts it again, and does the
//! work of its ranks in place of the test's own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

/// The longest time that a process may take. All tests end long before it, unless a rank hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last line of a process whose ranks did their work. A process that runs no test has no such line.
const END: &str = "all ranks are at their end";

/// A test that starts processes, by its path in this program.
pub struct Test(String);

/// Runs `body`, the calling test, or in a process that it starts the work of the process's ranks.
pub fn across(body: impl FnOnce(&Test)) {
    match std::env::var("HCCL_TEST_WORK") {
        Ok(work) => {
            be_ranks(&work);
            println!("\n{END}");
        }
        Err(_) => {
            // The harness gives a test a thread with its path as the name.
            let thread = std::thread::current();
            body(&Test(
                thread.name().expect("the thread of a test").to_owned(),
            ));
        }
    }
}

/// Does the work of a process: that of its ranks, each in a thread with a device.
fn be_ranks(work: &str) {
    let variable = |name| std::env::var(name).ok();
    let ranks = variable("HCCL_TEST_RANKS").expect("the number of ranks");
    let mine = variable("HCCL_TEST_MINE").expect("its ranks");
    let mine: Vec<usize> = mine
        .split(',')
        .map(|rank| rank.parse().expect("a rank"))
        .collect();
    let session = session(mine.len() as u32, 0);
    let root = match variable("HCCL_TEST_ROOT") {
        Some(text) => read_root(&text),
        None => {
            let root = root();
            println!("\nroot:{}", write_root(&root));
            root
        }
    };
    let ranks = ranks.parse().expect("a number");
    std::thread::scope(|scope| {
        for (device, rank) in mine.iter().enumerate() {
            let root = &root;
            scope.spawn(move || run(root, ranks, *rank, device as i32, |this| act(work, this)));
        }
    });
    assert_eq!(session.end(), Vec::<String>::new());
}

fn act(work: &str, this: &Rank) {
    match work {
        "every" => work::every_collective(this),
        "counts" => work::different_counts(this),
        "reductions" => work::every_reduction(this),
        "transfers" => work::transfers(this),
        "large" => large(this),
        "order" => order(this),
        "death" => death(this),
        "disagree" => disagree(this),
        "late" => late(this),
        "leave" => leave(this),
        "nothing" => {}
        other => panic!("no work {other}"),
    }
}

pub fn write_root(root: &HcclRootInfo) -> String {
    let bytes = root.internal.iter();
    bytes.map(|byte| format!("{:02x}", *byte as u8)).collect()
}

pub fn read_root(text: &str) -> HcclRootInfo {
    let mut root = HcclRootInfo {
        internal: [0; HCCL_ROOT_INFO_BYTES as usize],
    };
    for (place, byte) in root.internal.iter_mut().enumerate() {
        let digits = &text[2 * place..2 * place + 2];
        *byte = u8::from_str_radix(digits, 16).expect("digits") as _;
    }
    root
}

/// A process of some ranks.
pub struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(test: &Test, work: &str, ranks: usize, mine: &str, more: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--nocapture", &test.0])
            .env("HCCL_TEST_WORK", work)
            .env("HCCL_TEST_RANKS", ranks.to_string())
            .env("HCCL_TEST_MINE", mine)
            .envs(more.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// Returns the root that the process made.
    fn root(&mut self) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).expect("text") > 0 {
            if let Some(root) = line.trim().strip_prefix("root:") {
                return root.to_owned();
            }
            line.clear();
        }
        panic!("the process made no root: {}", self.end().1)
    }

    /// Waits for the end. Returns whether all went well, and the output.
    pub fn end(&mut self) -> (bool, String) {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a status") {
                Some(status) => break status,
                None if begin.elapsed() > PATIENCE => {
                    self.child.kill().expect("it can be killed");
                    panic!("a process hangs")
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        let errors = self.child.stderr.as_mut().expect("a pipe");
        errors.read_to_string(&mut text).expect("text");
        (status.success() && text.contains(END), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Test {
    /// Starts a process with the ranks of `mine`, of `ranks` in all.
    pub fn process(&self, work: &str, ranks: usize, mine: &str, more: &[(&str, &str)]) -> Process {
        Process::start(self, work, ranks, mine, more)
    }

    /// Starts processes, of which the first makes the root. Each has the ranks of its text.
    fn processes(&self, work: &str, mine: &[&str], more: &[(&str, &str)]) -> Vec<Process> {
        let ranks = mine.iter().flat_map(|mine| mine.split(',')).count();
        let mut first = self.process(work, ranks, mine[0], more);
        let root = first.root();
        let mut more = more.to_vec();
        more.push(("HCCL_TEST_ROOT", &root));
        let others = mine[1..]
            .iter()
            .map(|mine| self.process(work, ranks, mine, &more));
        let others: Vec<Process> = others.collect();
        std::iter::once(first).chain(others).collect()
    }

    /// Runs processes, which must all succeed.
    fn all_well(&self, work: &str, mine: &[&str]) {
        for (mut process, mine) in self.processes(work, mine, &[]).into_iter().zip(mine) {
            let (well, text) = process.end();
            assert!(well, "{work}, ranks {mine}: {text}");
        }
    }
}

#[test]
fn every_collective_between_two_and_three_processes() {
    across(|test| {
        test.all_well("every", &["0", "1"]);
        test.all_well("every", &["0", "1", "2"]);
        // The process with the root has the last rank, and another two.
        test.all_well("every", &["2", "1,0"]);
    });
}

#[test]
fn counts_reductions_and_transfers_between_processes() {
    across(|test| {
        test.all_well("counts", &["0", "1"]);
        test.all_well("reductions", &["0", "1", "2"]);
        test.all_well("transfers", &["0", "1"]);
    });
}

/// Sums more than a socket holds at once. The rank with the root ends first.
fn large(this: &Rank) {
    let count = 3 << 20;
    let values = vec![this.rank as f32 + 1.0; count];
    let data = this.buffer(&values);
    // SAFETY: handles and addresses are checked.
    unsafe {
        ok(HcclAllReduce(
            data,
            data,
            count as u64,
            F32,
            SUM,
            this.comm,
            this.stream,
        ));
    }
    assert!(
        this.read::<f32>(data, count)
            .iter()
            .all(|value| *value == 3.0)
    );
}

#[test]
fn messages_larger_than_a_socket_arrive_before_their_sender_ends() {
    across(|test| {
        test.all_well("large", &["0", "1"]);
        test.all_well("large", &["1", "0"]);
    });
}

/// Sums in f32, which depend on the order, while ranks come in different orders.
fn order(this: &Rank) {
    for turn in 0..6 {
        let data = this.buffer(&[[1e8f32, -1e8, 1.0][this.rank]]);
        std::thread::sleep(Duration::from_millis(((this.rank + turn) % 3 * 5) as u64));
        // SAFETY: handles and addresses are checked.
        unsafe {
            ok(HcclAllReduce(
                data,
                data,
                1,
                F32,
                SUM,
                this.comm,
                this.stream,
            ));
        }
        // (1e8 - 1e8) + 1 is 1. Any order that adds 1 to 1e8 first gives 0.
        assert_eq!(this.read::<f32>(data, 1), [1.0]);
    }
}

#[test]
fn sums_are_in_the_order_of_the_ranks_whoever_comes_first() {
    across(|test| {
        test.all_well("order", &["0", "1", "2"]);
        test.all_well("order", &["2", "0", "1"]);
    });
}

/// Waits for a collective that must fail. Returns its code and message.
fn failure(this: &Rank) -> (i32, String) {
    // SAFETY: handles are checked.
    let status = unsafe { aclrtSynchronizeStream(this.stream) };
    (status, message())
}

/// Rank 2 ends without a word in the middle of the group's work.
fn death(this: &Rank) {
    let data = this.buffer(&[1f32; 4]);
    // SAFETY: handles and addresses are checked.
    unsafe {
        ok(HcclBarrier(this.comm, this.stream));
        this.wait();
        if this.rank == 2 {
            std::process::abort();
        }
        ok(HcclAllReduce(
            data,
            data,
            4,
            F32,
            SUM,
            this.comm,
            this.stream,
        ));
        let (status, text) = failure(this);
        assert_eq!(status, ACL_ERROR_RT_LINK_ERROR, "{text}");
        assert!(
            text.contains("rank 2 has left") || text.contains("has ended"),
            "{text}"
        );
        let mut error = HCCL_SUCCESS;
        ok(HcclGetCommAsyncError(this.comm, &mut error));
        assert_eq!(error, HCCL_E_REMOTE);
        // Later ones fail at once, too.
        ok(HcclBarrier(this.comm, this.stream));
        assert_eq!(failure(this).0, ACL_ERROR_RT_LINK_ERROR);
    }
}

#[test]
fn a_killed_rank_is_an_error_for_all_others() {
    across(|test| {
        // Rank 2 is in a process without the root, and in the process with it.
        for mine in [["0", "1", "2"], ["2", "0", "1"]] {
            for (mut process, mine) in test.processes("death", &mine, &[]).into_iter().zip(mine) {
                let (well, text) = process.end();
                assert_eq!(well, mine != "2", "rank {mine}: {text}");
            }
        }
    });
}

/// Rank 0 calls something else than the others, in every way in which ranks can differ.
fn disagree(this: &Rank) {
    let data = this.buffer(&[1f32; 8]);
    let odd = this.rank == 0;
    let root = u32::from(odd);
    let (comm, stream) = (this.comm, this.stream);
    for way in 0..6 {
        // SAFETY: handles and addresses are checked.
        unsafe {
            let mut fresh = null_mut();
            assert_eq!(aclrtCreateStream(&mut fresh), 0);
            let on = |stream| match way {
                0 if odd => HcclAllGather(data, data, 2, F32, comm, stream),
                0 => HcclBarrier(comm, stream),
                1 => HcclAllReduce(data, data, 4 - u64::from(root), F32, SUM, comm, stream),
                2 if odd => HcclAllReduce(data, data, 4, HCCL_DATA_TYPE_INT32, SUM, comm, stream),
                2 => HcclAllReduce(data, data, 4, F32, SUM, comm, stream),
                3 if odd => HcclAllReduce(data, data, 4, F32, HCCL_REDUCE_MAX, comm, stream),
                3 => HcclAllReduce(data, data, 4, F32, SUM, comm, stream),
                4 => HcclBroadcast(data, 4, F32, root, comm, stream),
                _ => HcclReduce(data, data, 4 + u64::from(root), F32, SUM, 1, comm, stream),
            };
            ok(on(fresh));
            let status = aclrtSynchronizeStream(fresh);
            let text = message();
            assert_eq!(status, ACL_ERROR_RT_PARAM_INVALID, "{way}: {text}");
            assert!(text.contains("all"), "{way}: {text}");
            assert_eq!(aclrtDestroyStream(fresh), 0);
        }
    }
    // A rank that goes before the last answer is read would be another error.
    // SAFETY: handles and addresses are checked.
    unsafe { ok(HcclBarrier(comm, stream)) };
    this.wait();
}

#[test]
fn ranks_that_disagree_are_an_error_for_all() {
    across(|test| {
        test.all_well("disagree", &["0", "1"]);
        test.all_well("disagree", &["1", "0", "2"]);
    });
}

/// Rank 1 comes too late to a collective.
fn late(this: &Rank) {
    // SAFETY: handles and addresses are checked.
    unsafe {
        if this.rank == 1 {
            std::thread::sleep(Duration::from_millis(1500));
        }
        ok(HcclBarrier(this.comm, this.stream));
    }
    let (status, text) = failure(this);
    // The late rank hears that the other gave up, or finds that its process has ended since.
    let ended = this.rank == 1 && status == ACL_ERROR_RT_LINK_ERROR && text.contains("has ended");
    let gave_up = status == ACL_ERROR_RT_TASK_TIMEOUT && text.contains("HCCL_EXEC_TIMEOUT");
    assert!(gave_up || ended, "{status}: {text}");
}

#[test]
fn a_late_rank_is_an_error_for_all() {
    across(|test| {
        // The rank that waits has the root, and has it not.
        for mine in [["0", "1"], ["1", "0"]] {
            for mut process in test.processes("late", &mine, &[("HCCL_EXEC_TIMEOUT", "1")]) {
                let (well, text) = process.end();
                assert!(well, "{text}");
            }
        }
    });
}

/// Rank 1 destroys its part of the group. The others fail if they need it, and only then.
fn leave(this: &Rank) {
    let data = this.buffer(&[this.rank as f32; 2]);
    if this.rank == 1 {
        return;
    }
    // SAFETY: handles and addresses are checked.
    unsafe {
        ok(match this.rank {
            0 => HcclSend(data, 2, F32, 2, this.comm, this.stream),
            _ => HcclRecv(data, 2, F32, 0, this.comm, this.stream),
        });
        assert_eq!(this.read::<f32>(data, 2), [0.0; 2]);
        ok(HcclBarrier(this.comm, this.stream));
        let (status, text) = failure(this);
        assert_eq!(status, ACL_ERROR_RT_LINK_ERROR, "{text}");
        // Rank 0, which has the root, may have failed and ended before.
        let ended = this.rank == 2 && text.contains("has ended");
        assert!(ended || text.contains("rank 1 has left"), "{text}");
    }
}

#[test]
fn a_rank_that_leaves_is_missed_by_those_who_need_it() {
    across(|test| {
        test.all_well("leave", &["0", "1", "2"]);
    });
}

#[test]
fn ranks_that_never_come_are_an_error() {
    across(|test| {
        let begin = Instant::now();
        let time = [("HCCL_CONNECT_TIMEOUT", "1")];
        let mut first = test.process("nothing", 3, "0", &time);
        let root = first.root();
        let time = [time[0], ("HCCL_TEST_ROOT", &root)];
        let mut second = test.process("nothing", 3, "1", &time);
        for process in [&mut first, &mut second] {
            let (well, text) = process.end();
            assert!(!well && text.contains("HCCL_CONNECT_TIMEOUT"), "{text}");
        }
        assert!(begin.elapsed() < PATIENCE);
        // Now the process with the root has ended.
        let mut third = test.process("nothing", 3, "2", &time);
        let (well, text) = third.end();
        assert!(!well && text.contains("has ended"), "{text}");
    });
}

#[test]
fn ranks_that_come_after_all_others_are_told_why() {
    across(|test| {
        let _session = session(1, 0);
        let root = write_root(&root());
        let more = [("HCCL_TEST_ROOT", root.as_str())];
        let mut first = test.process("nothing", 2, "0", &more);
        let mut comm = null_mut();
        // SAFETY: the place is a variable, handles are checked.
        unsafe {
            ok(HcclCommInitRootInfo(2, &read_root(&root), 1, &mut comm));
            ok(HcclCommDestroy(comm));
            let again = HcclCommInitRootInfo(2, &read_root(&root), 1, &mut comm);
            assert_eq!(again, HCCL_E_PARA);
        }
        assert!(message().contains("in the group already"));
        let (well, text) = first.end();
        assert!(well, "{text}");
        let mut third = test.process("nothing", 2, "0", &more);
        let (well, text) = third.end();
        assert!(!well && text.contains("complete"), "{text}");
    });
}

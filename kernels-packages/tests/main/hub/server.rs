//! A server of HTTP that answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// An answer.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The length that is promised, if it is not that of the body.
    pub promised: Option<usize>,
    /// Waits before the body, and before each byte.
    pub delays: [Duration; 2],
}

impl Answer {
    pub fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![],
            body: body.into(),
            promised: None,
            delays: [Duration::ZERO; 2],
        }
    }

    pub fn to(status: u16, address: &str) -> Self {
        Self {
            headers: vec![("location".into(), address.into())],
            ..Self::of(status, "")
        }
    }
}

/// A request: path and authorization.
pub type Asked = (String, Option<String>);

/// A server with its requests.
pub struct Server {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (asked.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, answer) = (noted.clone(), answer.clone());
                thread::spawn(move || serve(stream, &noted, &*answer));
            }
        });
        Self { address, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("a lock").clone()
    }
}

fn serve(mut stream: TcpStream, noted: &Mutex<Vec<Asked>>, answer: &dyn Fn(&str) -> Answer) {
    let mut lines = BufReader::new(stream.try_clone().expect("a stream"))
        .lines()
        .map_while(Result::ok);
    let Some(path) = lines
        .next()
        .and_then(|line| line.split(' ').nth(1).map(str::to_owned))
    else {
        return;
    };
    let headers = lines.by_ref().take_while(|line| !line.is_empty());
    let token = headers.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization")
            .then(|| value.to_owned())
    });
    let token = token.last();
    noted.lock().expect("a lock").push((path.clone(), token));
    let answer = answer(&path);
    let length = answer.promised.unwrap_or(answer.body.len());
    let mut head = format!(
        "HTTP/1.1 {} x\r\nconnection: close\r\ncontent-length: {length}\r\n",
        answer.status
    );
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    // A client that gave up is no error here.
    let _ = stream.write_all((head + "\r\n").as_bytes());
    thread::sleep(answer.delays[0]);
    if answer.delays[1].is_zero() {
        let _ = stream.write_all(&answer.body);
        return;
    }
    for byte in answer.body {
        thread::sleep(answer.delays[1]);
        if stream.write_all(&[byte]).is_err() {
            return;
        }
    }
}

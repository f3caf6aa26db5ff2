//! Clients of the application: each sends orders to one instance after the other until one has taken it.

use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::wait_until;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// An answer takes longer where an instance, its connection or the pooler is killed in between.
const PATIENCE: Duration = Duration::from_secs(180);

/// What clients and test tell each other.
#[derive(Debug)]
pub struct Load {
    pub ports: Vec<u16>,
    /// How many there are to be, and how many may wait at a time.
    pub orders: u64,
    pub ahead: u64,
    next: AtomicU64,
    /// Orders whose runs have both ended, as the test has last seen it.
    pub done: AtomicU64,
    /// Answers other than success: an instance is away, or its database is.
    pub refused: AtomicU64,
    /// Orders that were sent again after an answer.
    pub repeated: AtomicU64,
    /// The test has ended.
    pub over: AtomicBool,
}

impl Load {
    pub fn new(ports: &[u16], orders: u64, ahead: u64) -> Arc<Self> {
        let [next, done, refused, repeated] = [0, 0, 0, 0].map(AtomicU64::new);
        Arc::new(Self {
            ports: ports.into(),
            orders,
            ahead,
            next,
            done,
            refused,
            repeated,
            over: AtomicBool::new(false),
        })
    }

    /// So many clients at a time.
    pub fn begin(self: &Arc<Self>, clients: u64, random: &mut Random) -> Vec<JoinHandle<()>> {
        let seeds: Vec<u64> = (0..clients).map(|_| random.below(u64::MAX)).collect();
        seeds
            .into_iter()
            .map(|seed| {
                thread::spawn({
                    let load = self.clone();
                    move || load.send_all(Random(seed))
                })
            })
            .collect()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn send_all(&self, mut random: Random) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.orders {
                return;
            }
            wait_until("what waits to become less", PATIENCE * 4, || {
                (self.is_over() || number < self.done.load(Ordering::Relaxed) + self.ahead).then_some(())
            });
            let path = format!("/orders/{:08x}-0000-4000-8000-{number:012x}", random.below(1 << 32));
            let body = format!(
                r#"{{"item": "a book", "seconds_to_reserve": {}, "seconds_to_pay": {}}}"#,
                seconds(&mut random),
                seconds(&mut random)
            );
            self.send(&path, &body, &mut random);
            if random.below(10) == 0 {
                let answer = self.send(&path, &body, &mut random);
                assert!(answer.contains(r#""placed":false"#) || self.is_over(), "{answer}");
                self.repeated.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn send(&self, path: &str, body: &str, random: &mut Random) -> String {
        wait_until("an instance to take an order", PATIENCE, || {
            if self.is_over() {
                return Some(String::new());
            }
            let port = self.ports[usize::try_from(random.below(self.ports.len() as u64)).unwrap()];
            let answer = request(port, "PUT", path, body).ok().filter(|answer| answer.starts_with("HTTP/1.1 202 "));
            if answer.is_none() {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            answer
        })
    }
}

/// From 50 ms to 8 s, most of them short.
fn seconds(random: &mut Random) -> f64 {
    let milliseconds = match random.below(100) {
        0..=84 => 50 + random.below(450),
        85..=96 => 500 + random.below(2_500),
        _ => 3_000 + random.below(5_001),
    };
    milliseconds as f64 / 1000.0
}

/// The whole answer of an instance.
pub fn request(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(5))?;
    connection.set_read_timeout(Some(Duration::from_secs(60)))?;
    let length = body.len();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

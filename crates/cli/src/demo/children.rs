//! The processes of a demo: each reports to its parent in JSON lines, and stops by itself
//! when its standard input ends, so that none outlives the demo.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

use crate::line::Line;

/// Something a child said or did.
#[derive(Debug)]
pub enum News {
    /// It wrote a line.
    Said(Line),
    /// It ended; with the last line of its standard error.
    Gone(ExitStatus, String),
}

/// News and its subject: the number of the process, and its incarnation.
pub type Heard = ((usize, u32), News);

/// A running child; dropping it asks the child to stop.
#[derive(Debug)]
pub struct Child {
    stdin: Option<ChildStdin>,
    kill: oneshot::Sender<()>,
    dead: oneshot::Receiver<()>,
}

impl Child {
    /// Starts this program again with `args`; what it says arrives on `news` under the number `who`.
    pub fn start(
        args: &[String],
        who: (usize, u32),
        news: mpsc::Sender<Heard>,
    ) -> io::Result<Child> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in the terminal is for the parent, which then stops its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = process.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (kill, killed) = oneshot::channel();
        let (died, dead) = oneshot::channel();
        tokio::spawn(async move {
            let said = async {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Ok(line) = serde_json::from_str(&line) {
                        let _ = news.send((who, News::Said(line))).await;
                    }
                }
            };
            let complained = async {
                let mut last = String::new();
                let mut lines = BufReader::new(stderr).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if !line.trim().is_empty() {
                        last = line;
                    }
                }
                last
            };
            let ended = async {
                let status = tokio::select! {
                    status = process.wait() => status,
                    Ok(()) = killed => {
                        // Gone already is as good as killed.
                        let _ = process.start_kill();
                        process.wait().await
                    }
                };
                let _ = died.send(());
                status
            };
            let ((), last, status) = tokio::join!(said, complained, ended);
            let _ = news
                .send((who, News::Gone(status.unwrap_or_default(), last)))
                .await;
        });
        Ok(Child { stdin, kill, dead })
    }

    /// Sends the start of the scenario to the child, in nanoseconds of `CLOCK_MONOTONIC`.
    pub async fn begin(&mut self, epoch_ns: u64) {
        if let Some(stdin) = &mut self.stdin {
            // A child that is gone already says so itself.
            let _ = stdin.write_all(format!("{epoch_ns}\n").as_bytes()).await;
        }
    }

    /// Asks the child to finish what it does.
    pub fn stop(&mut self) {
        self.stdin = None;
    }

    /// Kills the child as `kill -9` does, and waits until it is dead.
    pub async fn kill(self) {
        let _ = self.kill.send(());
        let _ = self.dead.await;
    }
}

//! Daemons of XTP as tasks of the test.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use layercast_net::{CancellationToken, XtpDaemon, XtpDaemonEvent, XtpHost, XtpNode, XtpPlace};
use layercast_xtp::remote::{ServerLimits, ServerStats};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::localhost;

pub const PATIENCE: Duration = Duration::from_secs(60);

pub async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("in time")
}

/// A folder for the sockets of a test, gone with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("layercast-xtpd-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A daemon that runs.
pub struct Serving {
    pub path: PathBuf,
    pub events: mpsc::UnboundedReceiver<XtpDaemonEvent>,
    pub stop: CancellationToken,
    task: JoinHandle<io::Result<ServerStats>>,
    _folder: Folder,
}

impl Serving {
    pub fn start(limits: ServerLimits) -> Serving {
        Serving::with(XtpNode::udp(localhost()).unwrap(), limits)
    }

    pub fn with(node: XtpNode, limits: ServerLimits) -> Serving {
        let folder = Folder::new();
        let path = folder.0.join("xtpd");
        let daemon = XtpDaemon::bind(&path, node, limits).unwrap();
        let stop = CancellationToken::new();
        let (told, events) = mpsc::unbounded_channel();
        let tell = move |event| {
            // A test that looks for none has ended.
            let _ = told.send(event);
        };
        let task = tokio::spawn(daemon.run(stop.clone(), PATIENCE, tell));
        Serving {
            path,
            events,
            stop,
            task,
            _folder: folder,
        }
    }

    /// A client of its own.
    pub async fn host(&self) -> XtpHost {
        let place = XtpPlace::Daemon(self.path.clone());
        XtpHost::open(&place).await.unwrap()
    }

    /// Waits until it has reported an event of this kind.
    pub async fn until(&mut self, is: impl Fn(&XtpDaemonEvent) -> bool) -> XtpDaemonEvent {
        in_time(async {
            loop {
                let event = self.events.recv().await.expect("it runs");
                if is(&event) {
                    return event;
                }
            }
        })
        .await
    }

    /// Stops it, and waits for its end.
    pub async fn end(self) -> ServerStats {
        self.stop.cancel();
        in_time(self.task).await.unwrap().unwrap()
    }
}

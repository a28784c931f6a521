use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::host::XtpHost;
use super::node::XtpNode;

/// Requests that wait in the queue before users do.
const QUEUE: usize = 64;

type Work = Box<dyn FnOnce(XtpHost) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// The XTP of a host as a daemon (xtp.md 2.14): a thread of its own, which users reach through a shared queue of
/// requests and wait for.
///
/// It is how SandiaXTP was built, and for programs without an async runtime; each request costs two switches of
/// threads, which an [`XtpHost`] in the user's own runtime does not.
pub struct XtpDaemon {
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl XtpDaemon {
    /// Starts the thread, with the socket that `open` opens in it.
    ///
    /// # Errors
    /// What `open` failed with, or that there can be no thread.
    pub fn start(
        open: impl FnOnce() -> io::Result<XtpNode> + Send + 'static,
    ) -> io::Result<XtpDaemon> {
        let (queue, mut requests) = mpsc::channel::<Work>(QUEUE);
        let (told, opened) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serve = async move {
            let host = match open() {
                Ok(node) => XtpHost::new(node),
                Err(error) => {
                    // Nobody listens only if the user is gone.
                    let _ = told.send(Err(error));
                    return;
                }
            };
            let _ = told.send(Ok(()));
            while let Some(work) = requests.recv().await {
                tokio::spawn(work(host.clone()));
            }
        };
        let thread = thread::Builder::new()
            .name("xtpd".into())
            .spawn(move || runtime.block_on(serve))?;
        let daemon = XtpDaemon {
            queue: Some(queue),
            thread: Some(thread),
        };
        match opened.blocking_recv() {
            Ok(result) => result.map(|()| daemon),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Has `work` done in the thread of the daemon, and waits for what comes of it. Must not be called within an async
    /// runtime.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn call<T, F>(&self, work: impl FnOnce(XtpHost) -> F + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |host| {
            let work = work(host);
            Box::pin(async move {
                // The user waits until it is told.
                let _ = reply.send(work.await);
            })
        });
        let queue = self.queue.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let sent = queue.blocking_send(work);
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        answer
            .blocking_recv()
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for XtpDaemon {
    fn drop(&mut self) {
        // Without a queue the thread ends.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

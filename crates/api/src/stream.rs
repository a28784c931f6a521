use std::fmt;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use layercast_core::Status;
use layercast_net::{LiveEvent, LiveFrom, LiveInput, LiveOptions};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::group::{Group, Shared};
use crate::management::ManagementSocket;
use crate::server::Running;

/// What may happen at the input before anybody asks; later events are dropped.
const EVENTS: usize = 64;

/// A live stream that is served as a group: see [`Server::serve_stream`](crate::Server::serve_stream).
///
/// When it is dropped, the flow ends.
pub struct OpenStream {
    shared: Arc<Shared>,
    stage: watch::Receiver<Stage>,
    events: Mutex<mpsc::Receiver<LiveEvent>>,
    task: JoinHandle<()>,
}

/// How far a stream is.
#[derive(Clone, Debug)]
enum Stage {
    /// It is looked at.
    Learning,
    /// The group is advertised.
    Served,
    /// The last frame has left.
    Ended,
    /// It cannot be served.
    Failed(Arc<Error>),
}

impl OpenStream {
    pub(crate) fn open(
        group: Group,
        options: LiveOptions,
        reader: impl Read + Send + 'static,
        running: Arc<Running>,
    ) -> Result<OpenStream> {
        let input = LiveInput::open(LiveFrom::Pipe {
            name: group.name.clone(),
            // How fast it comes tells whether it is stored.
            is_live: false,
            first: Bytes::new(),
            rest: Box::new(reader),
        })?;
        let shared = Shared::of(&group, running)?;
        let (stages, stage) = watch::channel(Stage::Learning);
        let (events, heard) = mpsc::channel(EVENTS);
        let serving = Serving {
            shared: Arc::clone(&shared),
            stages,
            events,
        };
        let task = tokio::spawn(async move {
            if let Err(error) = serving.run(group, options, input).await {
                serving.stages.send_replace(Stage::Failed(Arc::new(error)));
            }
        });
        Ok(OpenStream {
            shared,
            stage,
            events: Mutex::new(heard),
            task,
        })
    }

    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What a sink joins with, once the group is advertised.
    pub fn url(&self) -> String {
        self.shared.url(None).to_string()
    }

    /// What a sink joins with that knows this machine as `host`, where the server listens on all its addresses.
    pub fn url_at(&self, host: &str) -> String {
        self.shared.url(Some(host)).to_string()
    }

    /// Waits until the group is advertised.
    ///
    /// # Errors
    /// The stream cannot be served: it is no transport stream, its video cannot be read, or it ended before a key frame.
    pub fn served(&self) -> impl Future<Output = Result<(), Arc<Error>>> + Send + use<> {
        reached(self.stage.clone(), |stage| {
            !matches!(stage, Stage::Learning)
        })
    }

    /// Waits until the reader is at its end, and the last frame has left. Then the program may end, once it has closed the
    /// server.
    ///
    /// # Errors
    /// As [`served`](OpenStream::served).
    pub fn ended(&self) -> impl Future<Output = Result<(), Arc<Error>>> + Send + use<> {
        reached(self.stage.clone(), |stage| matches!(stage, Stage::Ended))
    }

    /// The next event of the input; `None` after the last.
    pub async fn event(&self) -> Option<LiveEvent> {
        self.events.lock().await.recv().await
    }

    /// Waits until the group has this number of members.
    pub async fn wait_for_members(&self, members: u32) {
        self.shared.wait_for_members(members).await;
    }

    /// The management socket.
    pub fn management(&self) -> ManagementSocket {
        ManagementSocket::of_source(Arc::clone(&self.shared))
    }
}

/// Waits for a stage, or for the failure of the stream.
async fn reached(
    mut stage: watch::Receiver<Stage>,
    is_it: impl Fn(&Stage) -> bool + Send,
) -> Result<(), Arc<Error>> {
    let wanted = |stage: &Stage| is_it(stage) || matches!(stage, Stage::Failed(_));
    let found = stage.wait_for(wanted).await.map(|stage| stage.clone());
    match found {
        Ok(Stage::Failed(error)) => Err(error),
        Ok(_) => Ok(()),
        // It was dropped.
        Err(_) => Err(Arc::new(Status::Closed.into())),
    }
}

/// A stream on its way into a group.
struct Serving {
    shared: Arc<Shared>,
    stages: watch::Sender<Stage>,
    events: mpsc::Sender<LiveEvent>,
}

impl Serving {
    async fn run(&self, group: Group, options: LiveOptions, mut input: LiveInput) -> Result<()> {
        let spec = input.learn(&options, |_| {}).await?.spec;
        let (frames, mut heard) = input.start(&options, &spec, self.shared.live_flow());
        self.shared.advertise(group, spec, frames).await?;
        self.stages.send_replace(Stage::Served);
        while let Some(event) = heard.recv().await {
            // Events that are not asked for are dropped.
            let _ = self.events.try_send(event);
        }
        self.shared.over().await;
        self.stages.send_replace(Stage::Ended);
        Ok(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStream")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

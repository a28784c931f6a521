use std::net::SocketAddr;

use layercast_core::Machine;
use layercast_wire::{Payload, XtpService};
use layercast_xtp::{
    Chunk, ContextId, SendOptions, XtpConfig, XtpError, XtpEvent, XtpRate, XtpSocket,
};

use super::far::Far;
use super::node::XtpNode;

/// The endpoint that a host uses: its own, or that of a daemon. Calls are the same.
pub(super) enum Backend {
    Own(Box<XtpNode>),
    Far(Box<Far>),
}

impl Backend {
    pub(super) fn local_addr(&self) -> SocketAddr {
        match self {
            Backend::Own(node) => node.local_addr(),
            Backend::Far(far) => far.local_addr(),
        }
    }

    pub(super) fn config(&self, service: XtpService) -> XtpConfig {
        match self {
            Backend::Own(node) => node.config(service),
            Backend::Far(far) => XtpConfig {
                max_data: far.max_data(),
                ..XtpConfig::new(service)
            },
        }
    }

    pub(super) fn connect(
        &mut self,
        from: u16,
        remote: XtpSocket,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        match self {
            Backend::Own(node) => node.connect_from(from, remote.net, remote.port, config),
            Backend::Far(far) => far.link.connect(from, remote, config),
        }
    }

    pub(super) fn join(
        &mut self,
        remote: XtpSocket,
        config: XtpConfig,
    ) -> Result<ContextId, XtpError> {
        match self {
            Backend::Own(node) => node.join(remote.net, remote.port, config),
            Backend::Far(far) => far.link.join(remote, config),
        }
    }

    pub(super) fn listen(
        &mut self,
        port: u16,
        backlog: usize,
        config: XtpConfig,
    ) -> Result<(), XtpError> {
        match self {
            Backend::Own(node) => node.listen(port, backlog, config),
            Backend::Far(far) => far.link.listen(port, backlog, config),
        }
    }

    /// Whether there are associations to a port now; `None` as long as that is not known.
    pub(super) fn listening(&self, port: u16) -> Option<Result<(), XtpError>> {
        match self {
            Backend::Own(_) => Some(Ok(())),
            Backend::Far(far) => far.link.listening(port),
        }
    }

    pub(super) fn unlisten(&mut self, port: u16) {
        match self {
            Backend::Own(node) => node.unlisten(port),
            Backend::Far(far) => far.link.unlisten(port),
        }
    }

    pub(super) fn accept(&mut self, port: u16) -> Option<ContextId> {
        match self {
            Backend::Own(node) => node.endpoint().accept(port).map(|(id, _)| id),
            Backend::Far(far) => far.link.accept(port),
        }
    }

    pub(super) fn offer(
        &mut self,
        id: ContextId,
        data: &mut Payload,
        how: &mut SendOptions,
    ) -> Result<bool, XtpError> {
        match self {
            Backend::Own(node) => node.endpoint().offer(id, data, how),
            Backend::Far(far) => far.link.offer(id, data, how),
        }
    }

    pub(super) fn receive(&mut self, id: ContextId, max: usize) -> Result<Option<Chunk>, XtpError> {
        match self {
            Backend::Own(node) => node.endpoint().receive(id, max),
            Backend::Far(far) => far.link.receive(id, max),
        }
    }

    pub(super) fn post(&mut self, id: ContextId, bytes: usize) -> Result<(), XtpError> {
        match self {
            Backend::Own(node) => node.endpoint().post(id, bytes),
            Backend::Far(far) => far.link.post(id, bytes),
        }
    }

    pub(super) fn set_traffic(
        &mut self,
        id: ContextId,
        output: XtpRate,
        input: XtpRate,
    ) -> Result<(), XtpError> {
        match self {
            Backend::Own(node) => node.endpoint().set_traffic(id, output, input),
            Backend::Far(far) => far.link.set_traffic(id, output, input),
        }
    }

    pub(super) fn close_write(&mut self, id: ContextId) -> Result<(), XtpError> {
        match self {
            Backend::Own(node) => node.endpoint().close_write(id),
            Backend::Far(far) => far.link.close_write(id),
        }
    }

    pub(super) fn close_read(&mut self, id: ContextId) -> Result<(), XtpError> {
        match self {
            Backend::Own(node) => node.close_read(id),
            Backend::Far(far) => far.link.close_read(id),
        }
    }

    /// Good-bye; one that is over needs none.
    pub(super) fn close(&mut self, id: ContextId) {
        match self {
            Backend::Own(node) => drop(node.close(id)),
            Backend::Far(far) => far.link.close(id),
        }
    }

    /// Breaks it off; one that is over needs no end.
    pub(super) fn abort(&mut self, id: ContextId) {
        match self {
            Backend::Own(node) => drop(node.abort(id)),
            Backend::Far(far) => far.link.abort(id),
        }
    }

    /// After a call: what it has to send leaves now, or soon; `true` if the task of the socket has something to do.
    pub(super) fn hurry(&mut self) -> bool {
        match self {
            Backend::Own(node) => {
                // What the kernel has no room for, and errors, are for that task.
                let done = node.hurry();
                node.has_event() || !matches!(done, Ok(true))
            }
            Backend::Far(far) => far.hurry(),
        }
    }

    /// Sends the queue to a daemon; `true` if it is empty.
    pub(super) fn flush(&mut self) -> bool {
        match self {
            Backend::Own(_) => true,
            Backend::Far(far) => far.flush(),
        }
    }

    /// An event that the endpoint here has reported already.
    pub(super) fn poll_event(&mut self) -> Option<XtpEvent> {
        match self {
            Backend::Own(node) => node.endpoint().poll_event(),
            Backend::Far(_) => None,
        }
    }
}

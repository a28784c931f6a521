use layercast_atm::FrameId;
use layercast_atm::signal::SignalCell;

use crate::internet::engine::PacketId;

/// What the cells of a frame carry.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameBody {
    Packet(PacketId),
    Signal(SignalCell),
}

#[derive(Debug)]
struct Frame {
    /// None once it was delivered.
    body: Option<FrameBody>,
    cells: u32,
    /// Cells neither dropped nor arrived.
    left: u32,
    /// How many there were before it.
    serial: u64,
    /// The node that sent it.
    from: u32,
}

/// What became of the frames of packets that a node sent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sent {
    pub frames: u64,
    /// Of which no packet came.
    pub frames_lost: u64,
    pub cells: u64,
    /// That were dropped on the way.
    pub cells_lost: u64,
}

/// All frames that have cells somewhere.
#[derive(Debug)]
pub(super) struct Frames {
    all: Vec<Frame>,
    free: Vec<FrameId>,
    added: u64,
    /// By node.
    sent: Vec<Sent>,
}

impl Frames {
    /// No frames yet, for this many nodes.
    pub fn new(nodes: usize) -> Frames {
        Frames {
            all: Vec::new(),
            free: Vec::new(),
            added: 0,
            sent: vec![Sent::default(); nodes],
        }
    }

    pub fn add(&mut self, from: u32, body: FrameBody, cells: u32) -> FrameId {
        if let FrameBody::Packet(_) = body {
            let sent = &mut self.sent[from as usize];
            sent.frames += 1;
            sent.cells += u64::from(cells);
        }
        let frame = Frame {
            body: Some(body),
            cells,
            left: cells,
            serial: self.added,
            from,
        };
        self.added += 1;
        match self.free.pop() {
            Some(id) => {
                self.all[id.0 as usize] = frame;
                id
            }
            None => {
                self.all.push(frame);
                FrameId(self.all.len() as u32 - 1)
            }
        }
    }

    /// Cells of a frame.
    pub fn cells(&self, id: FrameId) -> u32 {
        self.all[id.0 as usize].cells
    }

    /// Removes `count` cells of a frame; with the last one returns the frame's content, if it was not taken.
    pub fn less(&mut self, id: FrameId, count: u32) -> Option<FrameBody> {
        let frame = &mut self.all[id.0 as usize];
        frame.left -= count;
        if frame.left > 0 {
            return None;
        }
        self.free.push(id);
        let body = frame.body.take();
        if let Some(FrameBody::Packet(_)) = body {
            self.sent[frame.from as usize].frames_lost += 1;
        }
        body
    }

    /// Drops `count` cells of a frame.
    pub fn drop(&mut self, id: FrameId, count: u32) -> Option<FrameBody> {
        let frame = &self.all[id.0 as usize];
        if let Some(FrameBody::Packet(_)) = frame.body {
            self.sent[frame.from as usize].cells_lost += u64::from(count);
        }
        self.less(id, count)
    }

    /// What became of the frames of packets that a node sent.
    pub fn sent(&self, node: u32) -> Sent {
        self.sent[node as usize]
    }

    /// Takes what a whole frame carried, whose last cell is still to be counted.
    pub fn take(&mut self, id: FrameId) -> Option<FrameBody> {
        self.all[id.0 as usize].body.take()
    }

    /// What a frame carries, unless that was delivered.
    pub fn body(&self, id: FrameId) -> Option<FrameBody> {
        self.all[id.0 as usize].body
    }

    /// Whether there never was one.
    pub fn is_new(&self) -> bool {
        self.added == 0
    }

    /// Tells frames apart, also those that have the same number one after the other.
    pub fn serial(&self, id: FrameId) -> u64 {
        self.all[id.0 as usize].serial
    }

    /// Frames that have cells somewhere.
    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

use serde::Serialize;

/// Which way data go, seen from the end that is monitored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To here.
    In,
    /// From here.
    Out,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::In, Direction::Out];

    /// The direction of an event; `None`: it says another number.
    pub(crate) fn of(dir: u8) -> Option<Direction> {
        match dir {
            layercast_core::QosEvent::IN => Some(Direction::In),
            layercast_core::QosEvent::OUT => Some(Direction::Out),
            _ => None,
        }
    }
}

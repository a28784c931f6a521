/// The locks of a processor: which thread holds each.
#[derive(Debug, Default)]
pub(super) struct Locks(Vec<Option<usize>>);

impl Locks {
    pub fn add(&mut self) -> u32 {
        self.0.push(None);
        self.0.len() as u32 - 1
    }

    /// The other thread that holds the lock a job needs.
    pub fn holder(&self, lock: Option<u32>, thread: usize) -> Option<usize> {
        let holder = *self.0.get(lock? as usize)?;
        holder.filter(|it| *it != thread)
    }

    pub fn set(&mut self, lock: Option<u32>, holder: Option<usize>) {
        if let Some(entry) = lock.and_then(|it| self.0.get_mut(it as usize)) {
            *entry = holder;
        }
    }
}

//! Changes of a cache's settings.

use crate::engine::core::Core;

impl Core {
    /// Changes the bound on the weight. Passes evict what is beyond it. Does nothing and returns
    /// false if there is no bound.
    pub fn change_max_capacity(&self, max_capacity: u64) -> bool {
        if self.capacity().is_none() {
            return false;
        }
        self.set_max_capacity(&mut self.upkeep.lock(), max_capacity);
        self.require_pass();
        self.wake_scheduler();
        true
    }
}

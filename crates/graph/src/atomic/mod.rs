//! Files that are either complete or not there.
//!
//! A file is written under a temporary name, `.gt-PROCESS-NUMBER.partial`, in the folder of its
//! final name. A complete file is brought to the disk, renamed, and the folder is brought to the
//! disk too. The writer holds a lock on the temporary file while it lives. A temporary file without
//! a lock was left by a dead process and is removed by the next process that writes in the folder.

mod folder;
mod leftovers;
mod partial;
mod target;

pub use folder::{create_folder, sync_folder};
pub use leftovers::{remove_leftovers, remove_unfinished};
pub use partial::{CompleteFile, PartialFile, commit_all, write_atomic};
pub use target::{FileId, final_path, is_stream};

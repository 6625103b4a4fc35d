//! Targets by role (`holder`, `waiter`, `granting:2`, `leader`, `follower`), resolved at the injection.

pub const LEADER: &str = "leader";

/// A part that a node plays in the life of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The client whose process holds a key.
    Holder,
    /// A client with an acquire in flight that holds nothing.
    Waiter,
    /// The servers that granted the current hold.
    Granting,
    Leader,
    Follower,
}

impl Role {
    pub const ALL: [Role; 5] = [Role::Holder, Role::Waiter, Role::Granting, Role::Leader, Role::Follower];

    /// As plans and scenarios spell it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Holder => "holder",
            Role::Waiter => "waiter",
            Role::Granting => "granting",
            Role::Leader => LEADER,
            Role::Follower => "follower",
        }
    }

    /// Whether clients play it; servers play all others.
    pub fn is_of_clients(self) -> bool {
        matches!(self, Role::Holder | Role::Waiter)
    }

    /// What stands in brackets behind the names of so many nodes in a sentence.
    pub(crate) fn words(self, nodes: usize) -> &'static str {
        match (self, nodes) {
            (Role::Holder, 1) => "the holder",
            (Role::Holder, _) => "the holders",
            (Role::Waiter, 1) => "a waiter",
            (Role::Waiter, _) => "waiters",
            (Role::Granting, _) => "which had granted the lock",
            (Role::Leader, _) => "the leader",
            (Role::Follower, 1) => "a follower",
            (Role::Follower, _) => "followers",
        }
    }
}

/// A role as a target: `holder`, or with a number `granting:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleTarget {
    pub role: Role,
    /// How many nodes at most; left out: all servers that granted, one node of any other role.
    pub count: Option<usize>,
}

impl RoleTarget {
    /// Reads a target; none where it names no role. What is no number counts as 0, which no run accepts.
    pub fn parse(text: &str) -> Option<RoleTarget> {
        let (name, count) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.trim().parse().unwrap_or(0))),
            None => (text, None),
        };
        let role = Role::ALL.into_iter().find(|role| role.name() == name.trim())?;
        Some(RoleTarget { role, count })
    }

    /// How many nodes it stands for at most, of `all` that play the role.
    pub fn most(self, all: usize) -> usize {
        self.count.unwrap_or(if self.role == Role::Granting { all } else { 1 }).min(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_with_their_numbers() {
        let read = |text| RoleTarget::parse(text).map(|target| (target.role, target.count));
        assert_eq!(read("holder"), Some((Role::Holder, None)));
        assert_eq!(read("granting:2"), Some((Role::Granting, Some(2))));
        assert_eq!((read("n1"), read("storage")), (None, None));
        let most = |text| RoleTarget::parse(text).unwrap().most(5);
        assert_eq!(
            [most("granting"), most("granting:2"), most("granting:9"), most("follower")],
            [5, 2, 5, 1]
        );
    }
}

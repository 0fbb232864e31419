//! oddities

-- phpMyAdmin SQL Dump
-- version 4.9.5deb2
-- https://www.phpmyadmin.net/
--
-- Host: localhost:3306
-- Generation Time: Mar 03, 2021 at 09:41 AM
-- Server version: 5.7.33-0ubuntu0.18.04.1
-- PHP Version: 7.4.3

SET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";
SET AUTOCOMMIT = 0;
START TRANSACTION;
SET time_zone = "+00:00";


/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;

--
-- Database: `forum`
--

DELIMITER $$
--
-- Functions
--
CREATE DEFINER=`forum`@`localhost` FUNCTION `half` (`n` INT) RETURNS INT(11) NO SQL
BEGIN
  /* a delimiter $ alone is none */
  RETURN n DIV 2;
END$$

DELIMITER ;

-- --------------------------------------------------------

--
-- Table structure for table `members`
--

CREATE TABLE `members` (
  `member_id` mediumint(8) UNSIGNED NOT NULL,
  `login` varchar(60) COLLATE utf8mb4_unicode_ci NOT NULL,
  `joined` datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `signature` text COLLATE utf8mb4_unicode_ci
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

--
-- Dumping data for table `members`
--

INSERT INTO `members` (`member_id`, `login`, `joined`, `signature`) VALUES
(1, 'admin', '2015-01-01 00:00:00', ''),
(2, 'Zoë', '2016-02-29 23:59:59', 'line one\r\nline two; -- no comment'),
(7, 'o\'brien', '2020-12-31 12:00:00', NULL);

-- --------------------------------------------------------

--
-- Table structure for table `posts`
--

CREATE TABLE `posts` (
  `post_id` int(11) NOT NULL,
  `member_id` mediumint(8) UNSIGNED NOT NULL,
  `body` mediumtext COLLATE utf8mb4_unicode_ci NOT NULL,
  `ip` varbinary(16) DEFAULT NULL,
  `state` enum('open','closed','') COLLATE utf8mb4_unicode_ci NOT NULL DEFAULT 'open'
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

--
-- Dumping data for table `posts`
--

INSERT INTO `posts` (`post_id`, `member_id`, `body`, `ip`, `state`) VALUES
(1, 1, 'Welcome 😀', 0x7f000001, 'open'),
(2, 2, '\"quoted\" and \\ and %', 0x20010db8000000000000000000000001, 'closed'),
(3, 7, '', NULL, '');

--
-- Triggers `posts`
--
DELIMITER $$
CREATE TRIGGER `posts_ai` AFTER INSERT ON `posts` FOR EACH ROW INSERT INTO posts_log VALUES (NEW.post_id, half(NEW.post_id))
$$
DELIMITER ;

-- --------------------------------------------------------

--
-- Table structure for table `posts_log`
--

CREATE TABLE `posts_log` (
  `post_id` int(11) NOT NULL,
  `half` int(11) DEFAULT NULL
) ENGINE=MyISAM DEFAULT CHARSET=latin1;

--
-- Dumping data for table `posts_log`
--

INSERT INTO `posts_log` (`post_id`, `half`) VALUES
(2, 1);

-- --------------------------------------------------------

--
-- Stand-in structure for view `v_open`
-- (See below for the actual view)
--
CREATE TABLE `v_open` (
`post_id` int(11)
,`login` varchar(60)
);

-- --------------------------------------------------------

--
-- Structure for view `v_open`
--
DROP TABLE IF EXISTS `v_open`;

CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v_open`  AS  select `p`.`post_id` AS `post_id`,`m`.`login` AS `login` from (`posts` `p` join `members` `m` on((`m`.`member_id` = `p`.`member_id`))) where (`p`.`state` = 'open') ;

--
-- Indexes for dumped tables
--

--
-- Indexes for table `members`
--
ALTER TABLE `members`
  ADD PRIMARY KEY (`member_id`),
  ADD UNIQUE KEY `login` (`login`);

--
-- Indexes for table `posts`
--
ALTER TABLE `posts`
  ADD PRIMARY KEY (`post_id`),
  ADD KEY `member_id` (`member_id`,`state`) USING BTREE;
ALTER TABLE `posts` ADD FULLTEXT KEY `body` (`body`);

--
-- AUTO_INCREMENT for dumped tables
--

--
-- AUTO_INCREMENT for table `members`
--
ALTER TABLE `members`
  MODIFY `member_id` mediumint(8) UNSIGNED NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=8;

--
-- AUTO_INCREMENT for table `posts`
--
ALTER TABLE `posts`
  MODIFY `post_id` int(11) NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=4;

--
-- Constraints for dumped tables
--

--
-- Constraints for table `posts`
--
ALTER TABLE `posts`
  ADD CONSTRAINT `posts_ibfk_1` FOREIGN KEY (`member_id`) REFERENCES `members` (`member_id`) ON DELETE CASCADE;
COMMIT;

/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;

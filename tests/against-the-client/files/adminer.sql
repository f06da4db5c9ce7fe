-- Adminer 4.8.1 MySQL 10.11.6-MariaDB dump

SET NAMES utf8;
SET time_zone = '+00:00';
SET foreign_key_checks = 0;
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';

SET NAMES utf8mb4;

DROP TABLE IF EXISTS `article`;
CREATE TABLE `article` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `title` varchar(200) NOT NULL,
  `body` mediumtext NOT NULL,
  `rating` float DEFAULT NULL,
  `created` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`id`),
  UNIQUE KEY `title` (`title`),
  FULLTEXT KEY `body` (`body`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;

TRUNCATE `article`;
INSERT INTO `article` (`id`, `title`, `body`, `rating`, `created`) VALUES
(0,	'zero',	'',	NULL,	'2023-01-01 00:00:00'),
(1,	'Žluťoučký kůň',	'a\nb\tc',	4.5,	'2023-06-01 12:00:00'),
(2,	'emoji 😀',	'\\ back',	-0,	'2023-06-02 12:00:00');

DELIMITER ;;

DROP PROCEDURE IF EXISTS `count_articles`;;
CREATE PROCEDURE `count_articles`(OUT `n` int)
BEGIN
  SELECT COUNT(*) INTO n FROM article;
END;;

CREATE TRIGGER `article_bi` BEFORE INSERT ON `article` FOR EACH ROW
SET NEW.title = TRIM(NEW.title);;

DELIMITER ;

DROP VIEW IF EXISTS `titles`;
CREATE TABLE `titles` (`id` int(11), `title` varchar(200));


DROP TABLE IF EXISTS `titles`;
CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `titles` AS select `article`.`id` AS `id`,`article`.`title` AS `title` from `article`;

-- 2023-06-10 10:00:00

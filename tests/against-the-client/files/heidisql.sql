-- --------------------------------------------------------
-- Host:                         127.0.0.1
-- Server version:               10.6.12-MariaDB - mariadb.org binary distribution
-- Server OS:                    Win64
-- HeidiSQL Version:             12.3.0.6589
-- --------------------------------------------------------

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8 */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

-- Dumping database structure for shop
CREATE DATABASE IF NOT EXISTS `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci */;
USE `shop`;

-- Dumping structure for event shop.nightly
DELIMITER //
CREATE EVENT `nightly` ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01 03:00:00' ON COMPLETION NOT PRESERVE DISABLE DO BEGIN
  DELETE FROM orders WHERE id < 0;
END//
DELIMITER ;

-- Dumping structure for table shop.customers
CREATE TABLE IF NOT EXISTS `customers` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `name` varchar(50) NOT NULL DEFAULT '',
  `born` date DEFAULT NULL,
  `note` text DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `name` (`name`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Dumping data for table shop.customers: ~3 rows (approximately)
INSERT INTO `customers` (`id`, `name`, `born`, `note`) VALUES
	(1, 'Ada', '1815-12-10', NULL),
	(2, 'Grüß "Gott"', NULL, 'two\r\nlines'),
	(3, 'O\'Brien; DROP', '1970-01-01', '');

-- Dumping structure for table shop.orders
CREATE TABLE IF NOT EXISTS `orders` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `customer` int(10) unsigned NOT NULL,
  `total` decimal(10,2) NOT NULL DEFAULT 0.00,
  `paid` bit(1) NOT NULL DEFAULT b'0',
  `pdf` blob DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `FK_customer` (`customer`),
  CONSTRAINT `FK_customer` FOREIGN KEY (`customer`) REFERENCES `customers` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Dumping data for table shop.orders: ~2 rows (approximately)
INSERT INTO `orders` (`id`, `customer`, `total`, `paid`, `pdf`) VALUES
	(1, 1, 12.50, b'1', _binary 0x255044462D),
	(2, 3, 0.00, b'0', NULL);

-- Dumping structure for function shop.twice
DELIMITER //
CREATE FUNCTION `twice`(`x` INT) RETURNS int(11)
    NO SQL
    DETERMINISTIC
BEGIN
	RETURN x * 2;
END//
DELIMITER ;

-- Dumping structure for view shop.totals
-- Creating temporary table to overcome VIEW dependency errors
CREATE TABLE `totals` (
	`name` VARCHAR(50) NOT NULL COLLATE 'utf8mb4_unicode_ci',
	`total` DECIMAL(32,2) NULL
) ENGINE=MyISAM;

-- Dumping structure for trigger shop.orders_before_insert
SET @OLDTMP_SQL_MODE=@@SQL_MODE, SQL_MODE='STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
DELIMITER //
CREATE TRIGGER `orders_before_insert` BEFORE INSERT ON `orders` FOR EACH ROW BEGIN
  SET NEW.total = NEW.total + 0;
END//
DELIMITER ;
SET SQL_MODE=@OLDTMP_SQL_MODE;

-- Dumping structure for view shop.totals
-- Removing temporary table and create final VIEW structure
DROP TABLE IF EXISTS `totals`;
CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `totals` AS select `c`.`name` AS `name`,sum(`o`.`total`) AS `total` from (`customers` `c` join `orders` `o` on(`o`.`customer` = `c`.`id`)) group by `c`.`name` ;

/*!40103 SET TIME_ZONE=IFNULL(@OLD_TIME_ZONE, 'system') */;
/*!40101 SET SQL_MODE=IFNULL(@OLD_SQL_MODE, '') */;
/*!40014 SET FOREIGN_KEY_CHECKS=IFNULL(@OLD_FOREIGN_KEY_CHECKS, 1) */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40111 SET SQL_NOTES=IFNULL(@OLD_SQL_NOTES, 1) */;

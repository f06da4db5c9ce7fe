/*
 Navicat Premium Data Transfer

 Source Server         : local
 Source Server Type    : MySQL
 Source Server Version : 50742 (5.7.42)
 Source Host           : localhost:3306
 Source Schema         : crm

 Target Server Type    : MySQL
 File Encoding         : 65001

 Date: 01/03/2024 10:11:12
*/

SET NAMES utf8mb4;
SET FOREIGN_KEY_CHECKS = 0;

-- ----------------------------
-- Table structure for contact
-- ----------------------------
DROP TABLE IF EXISTS `contact`;
CREATE TABLE `contact`  (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `name` varchar(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NULL DEFAULT NULL,
  `kind` enum('person','company') CHARACTER SET utf8 COLLATE utf8_general_ci NOT NULL DEFAULT 'person',
  `flags` set('a','b','c') CHARACTER SET utf8 COLLATE utf8_general_ci NULL DEFAULT NULL,
  `avatar` longblob NULL,
  `updated` datetime(0) NULL DEFAULT NULL,
  PRIMARY KEY (`id`) USING BTREE,
  INDEX `name`(`name`) USING BTREE
) ENGINE = InnoDB AUTO_INCREMENT = 3 CHARACTER SET = utf8mb4 COLLATE = utf8mb4_unicode_ci ROW_FORMAT = Dynamic;

-- ----------------------------
-- Records of contact
-- ----------------------------
INSERT INTO `contact` VALUES (1, '张三', 'person', 'a,c', 0x89504E470D0A1A0A, '2024-02-29 08:00:00');
INSERT INTO `contact` VALUES (2, 'ACME \'Ltd\'', 'company', '', NULL, NULL);

-- ----------------------------
-- View structure for people
-- ----------------------------
DROP VIEW IF EXISTS `people`;
CREATE ALGORITHM = UNDEFINED SQL SECURITY DEFINER VIEW `people` AS select `contact`.`id` AS `id` from `contact` where `contact`.`kind` = 'person';

-- ----------------------------
-- Procedure structure for touch_all
-- ----------------------------
DROP PROCEDURE IF EXISTS `touch_all`;
delimiter ;;
CREATE PROCEDURE `touch_all`()
BEGIN
	UPDATE contact SET updated = NOW();
END
;;
delimiter ;

-- ----------------------------
-- Triggers structure for table contact
-- ----------------------------
DROP TRIGGER IF EXISTS `contact_bu`;
delimiter ;;
CREATE TRIGGER `contact_bu` BEFORE UPDATE ON `contact` FOR EACH ROW SET NEW.updated = '2024-01-01'
;;
delimiter ;

SET FOREIGN_KEY_CHECKS = 1;
